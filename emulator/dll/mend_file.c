/* Files: deletion and renaming as Windows 10 knows them, and paths that name a volume by its GUID. */
#include "mend_layer.h"
#include "mend_link.h"
#include "mend_link_info.h"
#include "mend_pipe.h"
#include "mend_volume.h"

#include <string.h>
#include <wchar.h>

/* Classes of information (ntifs.h). Wine 8.0 answers STATUS_NOT_IMPLEMENTED to the three that end in _EX. */
enum { BASIC = 4, RENAME = 10, LINK = 11, DISPOSITION = 13, NETWORK_OPEN = 34, DISPOSITION_EX = 64, RENAME_EX = 65, LINK_EX = 72 };

/* Flags of FILE_DISPOSITION_INFORMATION_EX, and of the other two. */
enum { DELETE_FILE = 1, IGNORE_READONLY = 0x10, REPLACE_IF_EXISTS = 1 };

#define FOLDER_NOT_EMPTY ((NTSTATUS)0xC0000101) /* STATUS_DIRECTORY_NOT_EMPTY */
#define ACCESS_DENIED ((NTSTATUS)0xC0000022) /* STATUS_ACCESS_DENIED */
#define CANNOT_DELETE ((NTSTATUS)0xC0000121) /* STATUS_CANNOT_DELETE: the file is read-only */

typedef NTSTATUS(NTAPI *set_file)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, ULONG);
typedef NTSTATUS(NTAPI *create_file)(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, LARGE_INTEGER *, ULONG, ULONG, ULONG,
				     ULONG, void *, ULONG);
typedef NTSTATUS(NTAPI *open_file)(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, ULONG, ULONG);
typedef NTSTATUS(NTAPI *query_name)(OBJECT_ATTRIBUTES *, void *);

static void *set_original, *create_original, *open_original, *basic_original, *full_original;

/* The rights to change attributes, which Wine asks for nowhere, and those to change data. */
enum {
	CHANGE_ATTRIBUTES = FILE_WRITE_ATTRIBUTES | FILE_WRITE_EA,
	CHANGE_DATA = FILE_WRITE_DATA | FILE_APPEND_DATA | GENERIC_WRITE | GENERIC_ALL | MAXIMUM_ALLOWED,
};

/* Reports whether a file that could not be opened can be opened without the rights to change attributes. For these Wine opens it for writing,
 * which Linux denies if the file is read-only: the programs of a host are those of a user without rights. Windows asks for no more than the
 * attributes' own rights. */
static BOOL attributes_alone(NTSTATUS status, ULONG access, ULONG disposition)
{
	return mend_on[MEND_ATTRIBUTES] && status == ACCESS_DENIED && disposition == FILE_OPEN &&
	       (access & CHANGE_ATTRIBUTES) && !(access & CHANGE_DATA);
}

/* Removes the read-only attribute of a file. file need not have the access right for that. */
static void make_writable(HANDLE file)
{
	UNICODE_STRING itself = { 0 };
	OBJECT_ATTRIBUTES name;
	struct basic change = { .attributes = FILE_ATTRIBUTE_NORMAL };
	IO_STATUS_BLOCK io;
	HANDLE again;

	InitializeObjectAttributes(&name, &itself, 0, file, NULL);
	if (!STATUS_OK(((open_file)open_original)(&again, FILE_READ_ATTRIBUTES, &name, &io,
						  FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, 0)))
		return;
	((set_file)set_original)(again, &io, &change, sizeof change, BASIC);
	NtClose(again);
}

/* Deletes a file. Its name disappears when the last handle is closed, even if POSIX semantics are asked for, because Wine's server has
 * no other way. */
static NTSTATUS dispose(HANDLE file, IO_STATUS_BLOCK *io, ULONG flags)
{
	BOOLEAN gone = flags & DELETE_FILE;
	NTSTATUS status = ((set_file)set_original)(file, io, &gone, sizeof gone, DISPOSITION);

	if (status == CANNOT_DELETE && (flags & IGNORE_READONLY)) {
		make_writable(file);
		status = ((set_file)set_original)(file, io, &gone, sizeof gone, DISPOSITION);
	}
	if (status == FOLDER_NOT_EMPTY && gone && mend_on[MEND_LAYER] && layer_empty(file))
		status = ((set_file)set_original)(file, io, &gone, sizeof gone, DISPOSITION);
	return status;
}

/* Renames or links a file. FILE_RENAME_INFORMATION_EX and FILE_LINK_INFORMATION_EX are like the structures without EX, with flags in place
 * of a BOOLEAN. */
static NTSTATUS rename_file(HANDLE file, IO_STATUS_BLOCK *io, const void *info, ULONG size, ULONG class)
{
	BYTE *copy = HeapAlloc(GetProcessHeap(), 0, size);
	NTSTATUS status;
	BOOLEAN replace;
	ULONG flags;

	if (!copy)
		return STATUS_NO_MEMORY;
	memcpy(copy, info, size);
	memcpy(&flags, info, sizeof flags);
	replace = flags & REPLACE_IF_EXISTS;
	memset(copy, 0, sizeof flags);
	memcpy(copy, &replace, sizeof replace);
	status = ((set_file)set_original)(file, io, copy, size, class);
	HeapFree(GetProcessHeap(), 0, copy);
	return status;
}

static NTSTATUS NTAPI set_information_file(HANDLE file, IO_STATUS_BLOCK *io, void *info, ULONG size, ULONG class)
{
	NTSTATUS status;

	if (mend_on[MEND_LINK] && link_set(file, io, info, size, class, &status))
		return status;
	if (class == DISPOSITION_EX && size >= sizeof(ULONG) && mend_on[MEND_REMOVE])
		return dispose(file, io, *(ULONG *)info);
	if ((class == RENAME_EX || class == LINK_EX) && size >= sizeof(ULONG) && mend_on[MEND_REMOVE])
		return rename_file(file, io, info, size, class == RENAME_EX ? RENAME : LINK);
	return pipe_set(((set_file)set_original)(file, io, info, size, class), file, io, info, size, class);
}

/* The names of volumes: \??\Volume{GUID}, and what follows. Wine names the volume of a drive by a GUID that ends in the code of the
 * drive's letter: GetFinalPathNameByHandle, for instance, returns paths with it, and Wine does not find files by them. Every other
 * volume is that of a layer of an image or container. It lies in a folder of C: that has the GUID as its name. */
static const WCHAR volume[] = L"\\??\\Volume{", drive[] = L"00000000-0000-0000-0000-0000000000";

enum { GUID_LENGTH = 36, LETTER = COUNT(drive) - 1, HEAD = COUNT(volume) - 1 };

/* Writes the beginning of the path that takes the place of \??\Volume{GUID} to to, of START characters at least, and returns its
 * length. */
static size_t volume_start(WCHAR *to, const WCHAR *guid)
{
	WCHAR letter[3] = { guid[LETTER], guid[LETTER + 1] };

	if (_wcsnicmp(guid, drive, LETTER))
		return (size_t)swprintf(to, START, L"%ls\\{%.*ls}", L"\\??\\" VOLUMES_FOLDER, GUID_LENGTH, guid);
	return (size_t)swprintf(to, START, L"\\??\\%lc:", (WCHAR)wcstoul(letter, NULL, 16));
}

OBJECT_ATTRIBUTES *by_letter(OBJECT_ATTRIBUTES *given, struct path *p)
{
	const WCHAR *from;
	size_t length, begin, rest;
	WCHAR *to;

	p->name.Buffer = NULL;
	p->volume = FALSE;
	if (!given || given->RootDirectory || !given->ObjectName || !mend_on[MEND_VOLUME_PATH])
		return given;
	from = given->ObjectName->Buffer;
	length = given->ObjectName->Length / sizeof(WCHAR);
	if (length < HEAD + GUID_LENGTH + 1 || _wcsnicmp(from, volume, HEAD) || from[HEAD + GUID_LENGTH] != '}')
		return given;
	from += HEAD;
	rest = length - HEAD - GUID_LENGTH - 1;
	to = HeapAlloc(GetProcessHeap(), 0, (START + rest) * sizeof(WCHAR));
	if (!to)
		return given;

	p->volume = !rest && _wcsnicmp(from, drive, LETTER);
	begin = volume_start(to, from);
	memcpy(to + begin, from + GUID_LENGTH + 1, rest * sizeof(WCHAR));
	p->name.Buffer = to;
	p->name.Length = p->name.MaximumLength = (USHORT)((begin + rest) * sizeof(WCHAR));
	p->attributes = *given;
	p->attributes.ObjectName = &p->name;
	return &p->attributes;
}

void path_release(struct path *p)
{
	if (p->name.Buffer)
		HeapFree(GetProcessHeap(), 0, p->name.Buffer);
}

static NTSTATUS NTAPI nt_create_file(HANDLE *file, ULONG access, OBJECT_ATTRIBUTES *name, IO_STATUS_BLOCK *io, LARGE_INTEGER *size,
				     ULONG attributes, ULONG share, ULONG disposition, ULONG options, void *ea, ULONG ea_size)
{
	struct path p;
	NTSTATUS status;

	name = by_letter(name, &p);
	if (p.volume)
		options &= ~FILE_NON_DIRECTORY_FILE; /* here it is a folder */
	if (!mend_on[MEND_LINK] || !link_open(file, access, name, io, disposition, options, &status))
		status = ((create_file)create_original)(file, access, name, io, size, attributes, share, disposition, options, ea, ea_size);
	if (attributes_alone(status, access, disposition))
		status = ((create_file)create_original)(file, access & ~CHANGE_ATTRIBUTES, name, io, size, attributes, share, disposition, options, ea, ea_size);
	path_release(&p);
	return status;
}

static NTSTATUS NTAPI nt_open_file(HANDLE *file, ULONG access, OBJECT_ATTRIBUTES *name, IO_STATUS_BLOCK *io, ULONG share, ULONG options)
{
	struct path p;
	NTSTATUS status;

	name = by_letter(name, &p);
	if (!mend_on[MEND_LINK] || !link_open(file, access, name, io, FILE_OPEN, options, &status))
		status = ((open_file)open_original)(file, access, name, io, share, options);
	if (attributes_alone(status, access, FILE_OPEN))
		status = ((open_file)open_original)(file, access & ~CHANGE_ATTRIBUTES, name, io, share, options);
	path_release(&p);
	return status;
}

static NTSTATUS query(OBJECT_ATTRIBUTES *name, void *info, query_name original, BOOL full)
{
	struct path p;
	NTSTATUS status = 0;

	name = by_letter(name, &p);
	if (!mend_on[MEND_LINK] || !link_query(name, info, full)) {
		status = original(name, info);
		if (STATUS_OK(status))
			no_mount(full ? NETWORK_OPEN : BASIC, info);
	}
	path_release(&p);
	return status;
}

static NTSTATUS NTAPI query_attributes(OBJECT_ATTRIBUTES *name, void *info)
{
	return query(name, info, (query_name)basic_original, FALSE);
}

static NTSTATUS NTAPI query_full_attributes(OBJECT_ATTRIBUTES *name, void *info)
{
	return query(name, info, (query_name)full_original, TRUE);
}

#define VOLUMES "paths below \\\\?\\Volume{GUID}\\ are not found"

struct mend file_mends[] = {
	{ "NtSetInformationFile", "os.RemoveAll of Go fails", (void *)set_information_file, &set_original, NULL, FALSE },
	{ "NtCreateFile", VOLUMES, (void *)nt_create_file, &create_original, NULL, FALSE },
	{ "NtOpenFile", VOLUMES, (void *)nt_open_file, &open_original, NULL, FALSE },
	{ "NtQueryAttributesFile", VOLUMES, (void *)query_attributes, &basic_original, NULL, FALSE },
	{ "NtQueryFullAttributesFile", VOLUMES, (void *)query_full_attributes, &full_original, NULL, FALSE },
	{ 0 },
};
