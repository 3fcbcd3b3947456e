/* BackupRead and BackupWrite, which Wine only pretends to have: the content of a file, without access lists, attributes and other
 * streams. Windows' snapshotter of containerd unpacks every layer with them. */
#include "mend.h"

#include <string.h>

#define HEAD 20	/* bytes of a WIN32_STREAM_ID without its name */
#define CONTENT 1 /* BACKUP_DATA */

/* A stream of them: {id, attributes, size of the data, size of the name}, name, data. */
struct backup {
	BYTE head[HEAD];
	DWORD have;		 /* bytes of head that came, or that went out */
	DWORD id, name;		 /* of the stream; bytes of the name to come */
	unsigned long long left; /* bytes of the data to come */
	BOOL begun;		 /* BackupRead: head is filled */
};

/* Returns the context of a file, which the first call makes. Returns NULL if there is no memory, or if this call only frees the context. */
static struct backup *backup_of(void **context, BOOL end)
{
	if (end) {
		HeapFree(GetProcessHeap(), 0, *context);
		*context = NULL;
	} else if (!*context) {
		*context = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof(struct backup));
	}
	return *context;
}

static void begin_stream(struct backup *s)
{
	memcpy(&s->id, s->head, sizeof s->id);
	memcpy(&s->left, s->head + 8, sizeof s->left);
	memcpy(&s->name, s->head + 16, sizeof s->name);
}

static DWORD smaller(unsigned long long a, DWORD b) { return a < b ? (DWORD)a : b; }

/* A disk that becomes full takes what it has room for; the next write says that it is full. */
static BOOL write_all(HANDLE file, BYTE *data, DWORD size)
{
	DWORD wrote;

	for (; size; data += wrote, size -= wrote) {
		if (!WriteFile(file, data, size, &wrote, NULL))
			return FALSE;
		if (!wrote) {
			SetLastError(ERROR_DISK_FULL);
			return FALSE;
		}
	}
	return TRUE;
}

static BOOL WINAPI backup_write(HANDLE file, BYTE *data, DWORD size, DWORD *done, BOOL end, BOOL security, void **context)
{
	struct backup *s = backup_of(context, end);
	DWORD part;

	(void)security;
	if (!s)
		return end;
	*done = 0;
	while (*done < size) {
		BYTE *at = data + *done;
		DWORD rest = size - *done;

		if (s->have < HEAD) {
			part = smaller(HEAD - s->have, rest);
			memcpy(s->head + s->have, at, part);
			s->have += part;
			if (s->have == HEAD)
				begin_stream(s);
		} else if (s->name) {
			part = smaller(s->name, rest);
			s->name -= part;
		} else {
			part = smaller(s->left, rest);
			if (s->id == CONTENT && !write_all(file, at, part))
				return FALSE;
			s->left -= part;
		}
		if (s->have == HEAD && !s->name && !s->left)
			s->have = 0; /* of the next stream */
		*done += part;
	}
	return TRUE;
}

/* Fills the head of the stream of a file. A folder has no content and no stream. */
static BOOL begin_read(HANDLE file, struct backup *s)
{
	BY_HANDLE_FILE_INFORMATION info;
	DWORD id = CONTENT;

	if (!GetFileInformationByHandle(file, &info))
		return FALSE;
	s->begun = TRUE;
	if (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) {
		s->have = HEAD;
		return TRUE;
	}
	s->left = (unsigned long long)info.nFileSizeHigh << 32 | info.nFileSizeLow;
	memcpy(s->head, &id, sizeof id);
	memcpy(s->head + 8, &s->left, sizeof s->left);
	return TRUE;
}

static BOOL WINAPI backup_read(HANDLE file, BYTE *data, DWORD size, DWORD *done, BOOL end, BOOL security, void **context)
{
	struct backup *s = backup_of(context, end);
	DWORD part;

	(void)security;
	if (!s)
		return end;
	*done = 0;
	if (!s->begun && !begin_read(file, s))
		return FALSE;
	part = smaller(HEAD - s->have, size);
	memcpy(data, s->head + s->have, part);
	s->have += part;
	*done = part;

	part = smaller(s->left, size - *done);
	if (!part)
		return TRUE;
	if (!ReadFile(file, data + *done, part, &part, NULL))
		return FALSE;
	s->left = part ? s->left - part : 0; /* the file may have become shorter */
	*done += part;
	return TRUE;
}

/* A function that exists returns another error for the handle. */
static BOOL pretends(BOOL succeeded) { return !succeeded && GetLastError() == ERROR_NOT_SUPPORTED; }

static BOOL write_missing(void)
{
	DWORD done;
	void *context = NULL;
	BYTE none[HEAD] = { 0 };

	return pretends(BackupWrite(INVALID_HANDLE_VALUE, none, sizeof none, &done, FALSE, FALSE, &context));
}

static BOOL read_missing(void)
{
	DWORD done;
	void *context = NULL;
	BYTE none[HEAD];

	return pretends(BackupRead(INVALID_HANDLE_VALUE, none, sizeof none, &done, FALSE, FALSE, &context));
}

struct mend backup_mends[] = {
	{ "BackupWrite", "layers of images cannot be unpacked by Windows' snapshotter", (void *)backup_write, NULL, write_missing, FALSE },
	{ "BackupRead", "layers of images cannot be packed by Windows' snapshotter", (void *)backup_read, NULL, read_missing, FALSE },
	{ 0 },
};
