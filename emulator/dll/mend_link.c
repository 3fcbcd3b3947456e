/* Symbolic links: Wine 8.0 has no reparse points, reports success for CreateSymbolicLinkW, and follows the links of Linux when it
 * should open, rename or delete a link itself (then it deletes the target). Here a symbolic link of Windows is one of Linux in
 * the prefix, so that every program, of Linux too, follows it; and a handle to a link is a handle to the link of Linux, opened
 * with O_PATH, so that the handle alone shows what it is and where. There are no junctions. A link is one to a folder if its target
 * is a folder. A socket's file (unix.c) is a reparse point too, without a target. */
#include "mend_link.h"
#include "mend_link_info.h"
#include "mend_pipe.h"
#include "mend_target.h"
#include "mend_volume.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "linux.h"

/* Calls of Linux (arch/x86/entry/syscalls/syscall_64.tbl) and their flags (include/uapi/linux/fcntl.h). */
enum { SYS_FSTAT = 5, SYS_GETDENTS64 = 217, SYS_NEWFSTATAT = 262, SYS_UNLINKAT, SYS_RENAMEAT, SYS_SYMLINKAT = 266, SYS_READLINKAT };
enum { AT_SYMLINK_NOFOLLOW = 0x100, AT_REMOVEDIR = 0x200 };
enum { ENOENT_ = 2, EACCES_ = 13, EEXIST_ = 17, ENOTEMPTY_ = 39 };

/* What Windows answers (ntstatus.h), and its names for what is asked (ntifs.h, winioctl.h). */
#define NOT_FOUND ((NTSTATUS)0xC0000034)
#define NO_SUCH_FILE ((NTSTATUS)0xC000000F)
#define COLLISION ((NTSTATUS)0xC0000035)
#define DENIED ((NTSTATUS)0xC0000022)
#define IS_A_FOLDER ((NTSTATUS)0xC00000BA)
#define NOT_A_FOLDER ((NTSTATUS)0xC0000103)
#define NOT_EMPTY ((NTSTATUS)0xC0000101)
#define LINK_ON_THE_WAY ((NTSTATUS)0xC000050B) /* STATUS_REPARSE_POINT_ENCOUNTERED */
#define NOT_A_LINK ((NTSTATUS)0xC0000275)      /* STATUS_NOT_A_REPARSE_POINT */
#define BAD_LINK ((NTSTATUS)0xC0000278)        /* STATUS_IO_REPARSE_DATA_INVALID */
#define FAILED_ ((NTSTATUS)0xC0000001)
#ifndef STATUS_NO_MORE_FILES
#define STATUS_NO_MORE_FILES ((NTSTATUS)0x80000006)
#endif
enum { SET_LINK = 0x900A4, GET_LINK = 0x900A8, DONT_REPARSE = 0x1000, OPEN_LINK = 0x200000, ONLY_FOLDER = 1, NO_FOLDER = 0x40, DELETE_AT_CLOSE = 0x1000 };

/* What Wine's ntdll has beside that of Windows; mingw's library does not know it. */
static NTSTATUS(CDECL *wine_nt_to_unix_file_name)(const OBJECT_ATTRIBUTES *name, char *path, ULONG *size, UINT disposition);
static int(CDECL *wine_server_fd_to_handle)(int fd, unsigned access, unsigned attributes, HANDLE *handle);
static int(CDECL *wine_server_handle_to_fd)(HANDLE handle, unsigned access, int *fd, unsigned *options);

static BOOL load_wine(void)
{
	HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");

	if (!wine_nt_to_unix_file_name) {
		wine_server_fd_to_handle = (void *)GetProcAddress(ntdll, "wine_server_fd_to_handle");
		wine_server_handle_to_fd = (void *)GetProcAddress(ntdll, "wine_server_handle_to_fd");
		wine_nt_to_unix_file_name = (void *)GetProcAddress(ntdll, "wine_nt_to_unix_file_name");
	}
	return wine_nt_to_unix_file_name && wine_server_fd_to_handle && wine_server_handle_to_fd;
}

typedef NTSTATUS(NTAPI *fs_control)(HANDLE, HANDLE, void *, void *, IO_STATUS_BLOCK *, ULONG, void *, ULONG, void *, ULONG);
typedef NTSTATUS(NTAPI *query_file)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, ULONG);
typedef NTSTATUS(NTAPI *query_folder)(HANDLE, HANDLE, void *, void *, IO_STATUS_BLOCK *, void *, ULONG, ULONG, BOOLEAN, UNICODE_STRING *,
				      BOOLEAN);

typedef HANDLE(WINAPI *create_file_w)(const WCHAR *, DWORD, DWORD, SECURITY_ATTRIBUTES *, DWORD, DWORD, HANDLE);

static void *control_original, *query_original, *folder_original, *create_original, *link_original;

/* Thread-local storage that passes FILE_FLAG_OPEN_REPARSE_POINT from CreateFileW to NtCreateFile, because Wine drops the flag. */
static DWORD itself_slot = TLS_OUT_OF_INDEXES;

/* Whether this process has had a handle to a link; before that no handle is examined. */
static volatile LONG links_known;

static NTSTATUS status_of(intptr_t result)
{
	switch (-result) {
	case ENOENT_:
		return NOT_FOUND;
	case EACCES_:
		return DENIED;
	case EEXIST_:
		return COLLISION;
	case ENOTEMPTY_:
		return NOT_EMPTY;
	}
	return result < 0 ? FAILED_ : 0;
}

/* A name as Linux knows it: a path below an open folder, or below AT_FDCWD. place_close must follow. */
struct place {
	int folder;
	char path[PATH_BYTES];
};

static void place_close(struct place *p)
{
	if (p->folder >= 0)
		linux_call(SYS_CLOSE, p->folder, 0, 0, 0, 0);
	p->folder = AT_FDCWD;
}

/* Finds the place of a name. Returns FALSE if it is no file of a drive, or Wine does not find its folder. */
static BOOL place_of(const OBJECT_ATTRIBUTES *name, struct place *p)
{
	const UNICODE_STRING *text = name ? name->ObjectName : NULL;
	ULONG size = sizeof p->path;
	unsigned options;
	NTSTATUS status;

	p->folder = AT_FDCWD;
	if (!text || text->Length < sizeof(WCHAR) || !load_wine())
		return FALSE;
	if (!name->RootDirectory && (text->Length < 7 * sizeof(WCHAR) || text->Buffer[5] != L':'))
		return FALSE; /* \??\C:\... only */
	status = wine_nt_to_unix_file_name(name, p->path, &size, FILE_OPEN_IF);
	if (!STATUS_OK(status) && status != NO_SUCH_FILE)
		return FALSE;
	if (p->path[0] == '/' || !name->RootDirectory)
		return TRUE;
	return !wine_server_handle_to_fd(name->RootDirectory, 0, &p->folder, &options);
}

/* Reports whether a name is that of a link. If so, the caller must call place_close. */
static BOOL find_link(const OBJECT_ATTRIBUTES *name, struct place *p, struct linux_stat *link)
{
	if (!place_of(name, p))
		return FALSE;
	if (!linux_call(SYS_NEWFSTATAT, p->folder, (intptr_t)p->path, (intptr_t)link, AT_SYMLINK_NOFOLLOW, 0) && tag_of(link))
		return TRUE;
	place_close(p);
	return FALSE;
}

/* Reports whether the target of a link is a folder. *absent is set to whether there is no target. */
static BOOL to_folder(int folder, const char *path, BOOL *absent)
{
	struct linux_stat target;

	*absent = linux_call(SYS_NEWFSTATAT, folder, (intptr_t)path, (intptr_t)&target, 0, 0) != 0;
	return !*absent && (target.mode & S_IFMT_) == S_IFDIR_;
}

/* Reports whether a handle is one to a link, and copies the link's path to path. */
static BOOL handle_link(HANDLE file, char *path, struct linux_stat *link)
{
	unsigned options;
	BOOL found;
	int fd;

	if (!links_known || wine_server_handle_to_fd(file, 0, &fd, &options))
		return FALSE;
	found = !linux_call(SYS_FSTAT, fd, (intptr_t)link, 0, 0, 0) && tag_of(link) && path_of(fd, path);
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return found;
}

BOOL link_is_socket(HANDLE file)
{
	char path[PATH_BYTES];
	struct linux_stat link;
	return handle_link(file, path, &link) && tag_of(&link) == TAG_SOCKET;
}

/* Opening. */

/* Reports whether a name below an open folder leads through a link. */
static BOOL through_link(const OBJECT_ATTRIBUTES *name)
{
	struct linux_stat s = { 0 };
	struct place p;
	char *c;

	if (!name->RootDirectory || !place_of(name, &p))
		return FALSE;
	for (c = strchr(p.path, '/'); c && (s.mode & S_IFMT_) != S_IFLNK_; c = strchr(c + 1, '/')) {
		*c = 0;
		linux_call(SYS_NEWFSTATAT, p.folder, (intptr_t)p.path, (intptr_t)&s, AT_SYMLINK_NOFOLLOW, 0);
		*c = '/';
	}
	c = p.path[0] == '/' ? NULL : p.path; /* a whole path is that of another folder than the open one */
	place_close(&p);
	return c && (s.mode & S_IFMT_) == S_IFLNK_;
}

BOOL link_open(HANDLE *file, ULONG access, const OBJECT_ATTRIBUTES *name, IO_STATUS_BLOCK *io, ULONG disposition, ULONG options, NTSTATUS *status)
{
	const ULONG by_kernel32 = SYNCHRONIZE | DELETE; /* DeleteFileW and others, which mean the link: Wine's do not say so */
	BOOL told = itself_slot != TLS_OUT_OF_INDEXES && TlsGetValue(itself_slot);
	BOOL itself = told || (options & OPEN_LINK) || (options & DELETE_AT_CLOSE) || access == by_kernel32;
	BOOL stay = name && (name->Attributes & DONT_REPARSE);
	struct linux_stat link;
	struct place p;
	BOOL folder, absent;
	intptr_t fd;

	if (stay && through_link(name)) {
		*status = io->Status = LINK_ON_THE_WAY;
		return TRUE;
	}
	if ((!itself && !stay) || !find_link(name, &p, &link))
		return FALSE;
	folder = to_folder(p.folder, p.path, &absent);
	*status = 0;
	if (disposition == FILE_CREATE)
		*status = COLLISION;
	else if (stay && !(options & OPEN_LINK))
		*status = LINK_ON_THE_WAY;
	else if ((options & ONLY_FOLDER) && !folder && !absent)
		*status = NOT_A_FOLDER;
	else if ((options & NO_FOLDER) && folder)
		*status = IS_A_FOLDER;

	if (!*status) {
		fd = linux_call(SYS_OPENAT, p.folder, (intptr_t)p.path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
		*status = status_of(fd);
		if (fd >= 0) {
			*status = wine_server_fd_to_handle((int)fd, access | SYNCHRONIZE, name->Attributes & OBJ_INHERIT, file);
			linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
		}
	}
	if (!*status) {
		InterlockedExchange(&links_known, 1);
		io->Information = FILE_OPENED;
		if (options & DELETE_AT_CLOSE) /* earlier than on Windows, which deletes it when the handle is closed */
			*status = status_of(linux_call(SYS_UNLINKAT, p.folder, (intptr_t)p.path, 0, 0, 0));
	}
	io->Status = *status;
	place_close(&p);
	return TRUE;
}

/* Making and reading. */

struct reparse { /* REPARSE_DATA_BUFFER of a symbolic link */
	ULONG tag;
	USHORT size, reserved, target, target_size, shown, shown_size;
	ULONG relative;
	WCHAR text[];
};

#define HEADER 8 /* bytes in front of what size counts */

/* Translates the target of a Windows link to a Linux path. Returns FALSE if it has none. */
static BOOL linux_target(const struct reparse *r, ULONG size, char *target)
{
	OBJECT_ATTRIBUTES name;
	UNICODE_STRING text;
	ULONG room = PATH_BYTES;
	struct path p;
	BOOL found;
	char *c;
	int n;

	if (size < sizeof *r || r->tag != TAG_SYMLINK || (size_t)r->target + r->target_size > size - sizeof *r)
		return FALSE;
	text.Buffer = (WCHAR *)((BYTE *)r->text + r->target);
	text.Length = text.MaximumLength = r->target_size;
	if (!(r->relative & 1)) {
		InitializeObjectAttributes(&name, &text, OBJ_CASE_INSENSITIVE, NULL, NULL);
		found = STATUS_OK(wine_nt_to_unix_file_name(by_letter(&name, &p), target, &room, FILE_OPEN_IF)) || target[0] == '/';
		path_release(&p);
		return found;
	}
	n = WideCharToMultiByte(CP_UTF8, 0, text.Buffer, text.Length / sizeof(WCHAR), target, PATH_BYTES - 1, NULL, NULL);
	if (n <= 0)
		return FALSE;
	target[n] = 0;
	for (c = target; *c; c++)
		if (*c == '\\')
			*c = '/';
	return TRUE;
}

/* Makes a link at path in place of the empty file, empty folder or link there. A file or link is replaced in one step. */
static NTSTATUS put_link(const char *target, const char *path, BOOL folder)
{
	static LONG last;
	char fresh[PATH_BYTES + 64];
	intptr_t result;

	if (folder) {
		result = linux_call(SYS_UNLINKAT, AT_FDCWD, (intptr_t)path, AT_REMOVEDIR, 0, 0);
		if (!result)
			result = linux_call(SYS_SYMLINKAT, (intptr_t)target, AT_FDCWD, (intptr_t)path, 0, 0);
		return status_of(result);
	}
	snprintf(fresh, sizeof fresh, "%s.link-%ld-%ld", path, (long)linux_call(SYS_GETPID, 0, 0, 0, 0, 0), (long)InterlockedIncrement(&last));
	result = linux_call(SYS_SYMLINKAT, (intptr_t)target, AT_FDCWD, (intptr_t)fresh, 0, 0);
	if (!result) {
		result = linux_call(SYS_RENAMEAT, AT_FDCWD, (intptr_t)fresh, AT_FDCWD, (intptr_t)path, 0);
		if (result)
			linux_call(SYS_UNLINKAT, AT_FDCWD, (intptr_t)fresh, 0, 0, 0);
	}
	return status_of(result);
}

static NTSTATUS set_link(HANDLE file, const struct reparse *r, ULONG size)
{
	char path[PATH_BYTES], target[PATH_BYTES] = { 0 };
	struct linux_stat now;
	NTSTATUS status = FAILED_;
	unsigned options;
	int fd;

	if (!load_wine() || !linux_target(r, size, target))
		return BAD_LINK;
	if (wine_server_handle_to_fd(file, 0, &fd, &options))
		return FAILED_;
	if (!linux_call(SYS_FSTAT, fd, (intptr_t)&now, 0, 0, 0) && path_of(fd, path)) {
		char *last = strrchr(path, '/');

		*last = 0;
		from_folder(path, target);
		*last = '/';
		status = put_link(target, path, (now.mode & S_IFMT_) == S_IFDIR_);
	}
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return status;
}

/* Writes what a socket has: a tag, and no data. */
static NTSTATUS get_socket(struct reparse *r, ULONG size, ULONG_PTR *used)
{
	if (size < HEADER)
		return TOO_SMALL;
	memset(r, 0, HEADER);
	r->tag = TAG_SOCKET;
	*used = HEADER;
	return 0;
}

/* Writes the target of a Linux link to r in Windows' form. *used is set to the size. */
static NTSTATUS get_link(const char *path, struct reparse *r, ULONG size, ULONG_PTR *used)
{
	char target[PATH_BYTES];
	const char *inside;
	WCHAR text[PATH_BYTES], *c;
	ULONG need;
	int n, added;
	intptr_t length = linux_call(SYS_READLINK, (intptr_t)path, (intptr_t)target, sizeof target - 1, 0, 0);

	if (length <= 0)
		return status_of(length);
	target[length] = 0;
	inside = from_root(target);
	if (!inside && target[0] == '/' && (inside = strstr(target, "/c:/"))) /* a target outside of C: has no Windows path */
		inside += 4;
	wcscpy(text, inside ? L"\\??\\C:\\" : L"");
	n = (int)wcslen(text);
	added = MultiByteToWideChar(CP_UTF8, 0, inside ? inside : target, -1, text + n, PATH_BYTES - n);
	if (!added)
		return FAILED_; /* it has no room, and text has no end */
	n += added - 1;
	for (c = text; *c; c++)
		if (*c == L'/')
			*c = L'\\';

	need = (ULONG)(sizeof *r + n * sizeof(WCHAR));
	if (size < need)
		return TOO_SMALL;
	memset(r, 0, sizeof *r);
	r->tag = TAG_SYMLINK;
	r->size = (USHORT)(need - HEADER);
	r->target_size = r->shown_size = (USHORT)(n * sizeof(WCHAR));
	r->relative = target[0] != '/' && !inside;
	memcpy(r->text, text, n * sizeof(WCHAR));
	*used = need;
	return 0;
}

static NTSTATUS NTAPI nt_fs_control(HANDLE file, HANDLE event, void *apc, void *context, IO_STATUS_BLOCK *io, ULONG code, void *in, ULONG in_size,
				    void *out, ULONG out_size)
{
	char path[PATH_BYTES];
	struct linux_stat link;
	ULONG_PTR used = 0;
	NTSTATUS status;

	if (code == SET_LINK && in)
		status = set_link(file, in, in_size);
	else if (code == GET_LINK && !handle_link(file, path, &link))
		status = NOT_A_LINK;
	else if (code == GET_LINK)
		status = tag_of(&link) == TAG_SOCKET ? get_socket(out, out_size, &used) : get_link(path, out, out_size, &used);
	else
		return pipe_control(((fs_control)control_original)(file, event, apc, context, io, code, in, in_size, out, out_size), file, io, code, out,
				    out_size);
	io->Status = status;
	io->Information = used;
	if (event && STATUS_OK(status))
		SetEvent(event);
	return status;
}

/* What a link is (mend_link_info.c). */

static NTSTATUS NTAPI nt_query_file(HANDLE file, IO_STATUS_BLOCK *io, void *info, ULONG size, ULONG class)
{
	char path[PATH_BYTES];
	struct linux_stat link;
	NTSTATUS status;
	ULONG_PTR used = 0;
	BOOL absent;

	if (!handle_link(file, path, &link)) {
		status = ((query_file)query_original)(file, io, info, size, class);
		if (STATUS_OK(status))
			no_mount(class, info);
		return pipe_query(status, file, io, info, size, class);
	}
	status = link_describe(&link, to_folder(AT_FDCWD, path, &absent), class, info, size, &used);
	if (status == BAD_CLASS)
		return ((query_file)query_original)(file, io, info, size, class);
	io->Status = status;
	io->Information = used;
	return status;
}

BOOL link_query(const OBJECT_ATTRIBUTES *name, void *info, BOOL full)
{
	struct linux_stat link;
	struct network network;
	struct basic basic;
	struct place p;
	BOOL absent;

	if (!find_link(name, &p, &link))
		return FALSE;
	basic = basic_of(&link, to_folder(p.folder, p.path, &absent));
	network = network_of(&basic);
	place_close(&p);
	if (full)
		memcpy(info, &network, sizeof network);
	else
		memcpy(info, &basic, sizeof basic);
	return TRUE;
}

/* Renaming and deleting. */

/* Counts the target of a link that has been moved from its new folder. */
static NTSTATUS recount(const struct place *p)
{
	static const char root[] = "/dosdevices/c:/"; /* as from_folder wants it */
	char target[PATH_BYTES], whole[PATH_BYTES], path[PATH_BYTES], *last;
	intptr_t length = linux_call(SYS_READLINKAT, p->folder, (intptr_t)p->path, (intptr_t)target, sizeof target - 1, 0), fd;
	const char *below;

	target[length > 0 ? length : 0] = 0;
	below = from_root(target);
	if (!below || strlen(below) + sizeof root > PATH_BYTES)
		return 0;
	fd = linux_call(SYS_OPENAT, p->folder, (intptr_t)p->path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	if (fd < 0 || !path_of((int)fd, path)) {
		linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
		return FAILED_;
	}
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	strcpy(whole, root);
	strcat(whole, below);
	last = strrchr(path, '/');
	*last = 0;
	from_folder(path, whole);
	*last = '/';
	return strcmp(whole, target) && from_root(whole) ? put_link(whole, path, FALSE) : 0;
}

BOOL link_set(HANDLE file, IO_STATUS_BLOCK *io, const void *info, ULONG size, ULONG class, NTSTATUS *status)
{
	const FILE_RENAME_INFORMATION *to = info;
	char path[PATH_BYTES];
	struct linux_stat link, there;
	OBJECT_ATTRIBUTES name;
	UNICODE_STRING text;
	struct place p;

	if ((class != LINK_BASIC && class != LINK_DISPOSITION && class != LINK_DISPOSITION_EX && class != LINK_RENAME && class != LINK_RENAME_EX) ||
	    !handle_link(file, path, &link))
		return FALSE;
	*status = 0;
	if (class == LINK_DISPOSITION || class == LINK_DISPOSITION_EX) {
		if (*(const BYTE *)info & 1)
			*status = status_of(linux_call(SYS_UNLINKAT, AT_FDCWD, (intptr_t)path, 0, 0, 0));
	} else if (class != LINK_BASIC) {
		if (size < FIELD_OFFSET(FILE_RENAME_INFORMATION, FileName) + to->FileNameLength)
			return FALSE;
		text.Buffer = (WCHAR *)to->FileName;
		text.Length = text.MaximumLength = (USHORT)to->FileNameLength;
		InitializeObjectAttributes(&name, &text, OBJ_CASE_INSENSITIVE, to->RootDirectory, NULL);
		if (!place_of(&name, &p))
			*status = NOT_FOUND;
		else if (!to->ReplaceIfExists && !linux_call(SYS_NEWFSTATAT, p.folder, (intptr_t)p.path, (intptr_t)&there, AT_SYMLINK_NOFOLLOW, 0))
			*status = COLLISION;
		else
			*status = status_of(linux_call(SYS_RENAMEAT, AT_FDCWD, (intptr_t)path, p.folder, (intptr_t)p.path, 0));
		if (!*status)
			*status = recount(&p);
		place_close(&p);
	}
	io->Status = *status;
	io->Information = 0;
	return TRUE;
}

/* Listing: the classes that Wine knows differ in where the name stands (ntifs.h). All but the first have, where the size of
 * extended attributes stands for other files, the kind of the link. */
enum { ENTRY_TIMES = 8, ENTRY_ATTRIBUTES = 0x38, ENTRY_NAME_SIZE = 0x3c, ENTRY_TAG = 0x40 };
static const struct {
	ULONG class, name;
} entries[] = { { 1, 0x40 }, { 2, 0x44 }, { 3, 0x5e }, { 37, 0x68 }, { 38, 0x50 } };

/* In a list, too, a folder that is a mount of Linux is no link. */
static void no_mount_entry(BYTE *entry, ULONG class)
{
	ULONG attributes, no_tag = 0;

	memcpy(&attributes, entry + ENTRY_ATTRIBUTES, sizeof attributes);
	if (!(attributes & FILE_ATTRIBUTE_REPARSE_POINT))
		return;
	attributes &= ~FILE_ATTRIBUTE_REPARSE_POINT;
	memcpy(entry + ENTRY_ATTRIBUTES, &attributes, sizeof attributes);
	if (class != 1)
		memcpy(entry + ENTRY_TAG, &no_tag, sizeof no_tag);
}

static void mark_links(int folder, BYTE *entry, ULONG class, ULONG at)
{
	char name[3 * MAX_PATH + 1];
	struct linux_stat s;
	ULONG size, next, attributes, tag;
	BOOL absent;
	int n;

	for (;; entry += next) {
		memcpy(&next, entry, sizeof next);
		memcpy(&size, entry + ENTRY_NAME_SIZE, sizeof size);
		no_mount_entry(entry, class);
		n = WideCharToMultiByte(CP_UTF8, 0, (WCHAR *)(entry + at), size / sizeof(WCHAR), name, sizeof name - 1, NULL, NULL);
		name[n > 0 ? n : 0] = 0;
		if (n > 0 && !linux_call(SYS_NEWFSTATAT, folder, (intptr_t)name, (intptr_t)&s, AT_SYMLINK_NOFOLLOW, 0) && (tag = tag_of(&s))) {
			attributes = basic_of(&s, to_folder(folder, name, &absent)).attributes;
			memcpy(entry + ENTRY_ATTRIBUTES, &attributes, sizeof attributes);
			if (class != 1)
				memcpy(entry + ENTRY_TAG, &tag, sizeof tag);
		}
		if (!next)
			return;
	}
}

/* Finds the nth link of a folder whose target is absent. */
static BOOL absent_link(int folder, int n, char *name, struct linux_stat *link)
{
	BYTE buffer[4096] __attribute__((aligned(8)));
	intptr_t fd = linux_call(SYS_OPENAT, folder, (intptr_t)".", O_DIRECTORY_ | O_CLOEXEC, 0, 0), length;
	BOOL found = FALSE, absent;
	intptr_t at;

	while (fd >= 0 && !found && (length = linux_call(SYS_GETDENTS64, fd, (intptr_t)buffer, sizeof buffer, 0, 0)) > 0)
		for (at = 0; at < length && !found; at += ((struct entry64 *)(buffer + at))->size) {
			const struct entry64 *e = (struct entry64 *)(buffer + at);
			if (linux_call(SYS_NEWFSTATAT, folder, (intptr_t)e->name, (intptr_t)link, AT_SYMLINK_NOFOLLOW, 0) ||
			    (link->mode & S_IFMT_) != S_IFLNK_)
				continue;
			to_folder(folder, e->name, &absent);
			if (absent && !n--) {
				found = TRUE;
				strcpy(name, e->name);
			}
		}
	if (fd >= 0)
		linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return found;
}

static NTSTATUS tell_absent(int folder, int n, ULONG class, ULONG at, BYTE *info, ULONG size, IO_STATUS_BLOCK *io)
{
	char name[3 * MAX_PATH + 1];
	WCHAR text[MAX_PATH];
	struct linux_stat link;
	struct basic basic;
	ULONG tag = TAG_SYMLINK, bytes;

	if (!absent_link(folder, n, name, &link))
		return STATUS_NO_MORE_FILES;
	bytes = (ULONG)(MultiByteToWideChar(CP_UTF8, 0, name, -1, text, MAX_PATH) - 1) * sizeof(WCHAR);
	if (size < at + bytes)
		return TOO_SMALL;
	basic = basic_of(&link, FALSE);
	memset(info, 0, at);
	memcpy(info + ENTRY_TIMES, &basic, 4 * sizeof(int64_t));
	memcpy(info + ENTRY_ATTRIBUTES, &basic.attributes, sizeof basic.attributes);
	memcpy(info + ENTRY_NAME_SIZE, &bytes, sizeof bytes);
	if (class != 1)
		memcpy(info + ENTRY_TAG, &tag, sizeof tag);
	memcpy(info + at, text, bytes);
	io->Status = 0;
	io->Information = at + bytes;
	return 0;
}

static NTSTATUS NTAPI nt_query_folder(HANDLE folder, HANDLE event, void *apc, void *context, IO_STATUS_BLOCK *io, void *info, ULONG size,
				      ULONG class, BOOLEAN single, UNICODE_STRING *mask, BOOLEAN restart)
{
	NTSTATUS status =
		((query_folder)folder_original)(folder, event, apc, context, io, info, size, class, single, mask, restart);
	BOOL some = STATUS_OK(status) && io->Information;
	unsigned options;
	size_t i;
	int fd, n;

	for (i = 0; i < COUNT(entries) && entries[i].class != class; i++)
		;
	if (i == COUNT(entries) || (!some && status != STATUS_NO_MORE_FILES) || !load_wine() || wine_server_handle_to_fd(folder, 0, &fd, &options))
		return status;
	if (some) {
		list_begins(folder, mask, restart);
		mark_links(fd, info, class, entries[i].name);
	} else if ((n = list_next(folder)) >= 0) {
		status = tell_absent(fd, n, class, entries[i].name, info, size, io);
		if (!STATUS_OK(status))
			list_ends(folder);
	}
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return status;
}

/* CreateSymbolicLinkW. */

typedef BOOLEAN(WINAPI *create_symbolic_link)(const WCHAR *, const WCHAR *, DWORD);

/* Makes a link to a Linux path. */
static NTSTATUS make_link(char *target, struct place *p)
{
	char *last = strrchr(p->path, '/'), folder[PATH_BYTES];
	BOOL found;

	if (last)
		*last = 0;
	found = folder_path(p->folder, !last ? "." : *p->path ? p->path : "/", folder);
	if (last)
		*last = '/';
	if (found)
		from_folder(folder, target);
	return status_of(linux_call(SYS_SYMLINKAT, (intptr_t)target, p->folder, (intptr_t)p->path, 0, 0));
}

static BOOLEAN WINAPI create_link(const WCHAR *path, const WCHAR *target, DWORD flags)
{
	BOOL relative = target[0] != L'\\' && target[0] != L'/' && !(target[0] && target[1] == L':');
	size_t length = wcslen(target), whole = sizeof(struct reparse) + (length + COUNT(L"\\??\\")) * sizeof(WCHAR);
	struct reparse *r;
	OBJECT_ATTRIBUTES name;
	UNICODE_STRING text = { 0 };
	char linux_name[PATH_BYTES] = { 0 };
	struct place p;
	NTSTATUS status = FAILED_;

	if (!link_mends[0].done) /* a Wine that we do not know would delete the target in place of the link */
		return ((create_symbolic_link)link_original)(path, target, flags);
	r = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, whole);
	if (!r) {
		SetLastError(ERROR_NOT_ENOUGH_MEMORY);
		return FALSE;
	}
	r->tag = TAG_SYMLINK;
	r->relative = relative;
	wcscpy(r->text, relative || !wcsncmp(target, L"\\??\\", 4) ? L"" : L"\\??\\");
	wcscat(r->text, wcsncmp(target, L"\\\\?\\", 4) ? target : target + 4); /* a path without the length of MAX_PATH, or one of a volume */
	r->target_size = (USHORT)(wcslen(r->text) * sizeof(WCHAR));
	p.folder = AT_FDCWD;
	if (RtlDosPathNameToNtPathName_U(path, &text, NULL, NULL)) {
		InitializeObjectAttributes(&name, &text, OBJ_CASE_INSENSITIVE, NULL, NULL);
		if (!load_wine() || !linux_target(r, (ULONG)whole, linux_name))
			status = BAD_LINK;
		else if (!place_of(&name, &p))
			status = NOT_FOUND;
		else
			status = make_link(linux_name, &p);
		place_close(&p);
		RtlFreeUnicodeString(&text);
	}
	HeapFree(GetProcessHeap(), 0, r);
	if (status)
		SetLastError(RtlNtStatusToDosError(status));
	return !status;
}

/* Wine's CreateSymbolicLinkW always reports success. */
static BOOL link_missing(void) { return CreateSymbolicLinkW(L"C:\\windows\\no\\such\\folder\\link", L"target", 0); }

static HANDLE WINAPI create_file_of(const WCHAR *name, DWORD access, DWORD share, SECURITY_ATTRIBUTES *security, DWORD disposition, DWORD flags, HANDLE like)
{
	HANDLE file;
	DWORD error;

	if (!(flags & FILE_FLAG_OPEN_REPARSE_POINT) || itself_slot == TLS_OUT_OF_INDEXES)
		return ((create_file_w)create_original)(name, access, share, security, disposition, flags, like);
	TlsSetValue(itself_slot, &itself_slot);
	file = ((create_file_w)create_original)(name, access, share, security, disposition, flags, like);
	error = GetLastError();
	TlsSetValue(itself_slot, NULL);
	SetLastError(error);
	return file;
}

static BOOL create_missing(void)
{
	itself_slot = TlsAlloc();
	return TRUE;
}

#define LINKS "symbolic links do not work"

struct mend link_mends[] = {
	{ "NtFsControlFile", LINKS, (void *)nt_fs_control, &control_original, NULL, FALSE },
	{ "NtQueryInformationFile", LINKS, (void *)nt_query_file, &query_original, NULL, FALSE },
	{ "NtQueryDirectoryFile", LINKS, (void *)nt_query_folder, &folder_original, NULL, FALSE },
	{ "CreateFileW", LINKS, (void *)create_file_of, &create_original, create_missing, FALSE },
	{ "CreateSymbolicLinkW", LINKS, (void *)create_link, &link_original, link_missing, FALSE },
	{ 0 },
};
