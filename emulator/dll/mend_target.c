#include "mend_target.h"

#include <stdio.h>
#include <string.h>

#include "linux.h"

BOOL path_of(int fd, char *path)
{
	char entry[32];
	intptr_t length;

	snprintf(entry, sizeof entry, "/proc/self/fd/%d", fd);
	length = linux_call(SYS_READLINK, (intptr_t)entry, (intptr_t)path, PATH_BYTES - 1, 0, 0);
	if (length <= 0)
		return FALSE;
	path[length] = 0;
	return TRUE;
}

/* Stands in front of what is below the root of C:. */
#define FROM_ROOT ".//"

BOOL folder_path(int folder, const char *name, char *path)
{
	intptr_t fd = linux_call(SYS_OPENAT, folder, (intptr_t)name, O_PATH | O_DIRECTORY_ | O_CLOEXEC, 0, 0);
	BOOL found = fd >= 0 && path_of((int)fd, path);

	if (fd >= 0)
		linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return found;
}

/* Writes how many folders lie between a link and the root of C:, as the way up. folder is the path of the link's folder. FALSE: it is not on C:. */
static BOOL way_up(const char *folder, char *way)
{
	static WCHAR root[] = L"\\??\\C:\\";
	UNICODE_STRING text = { sizeof root - sizeof *root, sizeof root, root };
	NTSTATUS(CDECL * to_unix)(const OBJECT_ATTRIBUTES *, char *, ULONG *, UINT) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_nt_to_unix_file_name");
	char drive[PATH_BYTES], path[PATH_BYTES];
	OBJECT_ATTRIBUTES name;
	ULONG room = PATH_BYTES;
	size_t length;

	InitializeObjectAttributes(&name, &text, OBJ_CASE_INSENSITIVE, NULL, NULL);
	if (!to_unix || !STATUS_OK(to_unix(&name, drive, &room, FILE_OPEN)) || !folder_path(AT_FDCWD, drive, path))
		return FALSE;
	length = strlen(path);
	if (strncmp(folder, path, length) || (folder[length] && folder[length] != '/'))
		return FALSE;
	*way = 0;
	for (folder += length; *folder; folder++)
		if (*folder == '/' && strlen(way) + 4 < PATH_BYTES)
			strcat(way, "../");
	return TRUE;
}

void from_folder(const char *folder, char *target)
{
	static const char drive[] = "/dosdevices/c:/";
	char way[PATH_BYTES], *below = target[0] == '/' ? strstr(target, drive) : NULL;

	if (!below || !way_up(folder, way))
		return;
	below += sizeof drive - 1;
	if (strlen(way) + sizeof FROM_ROOT + strlen(below) > PATH_BYTES)
		return;
	memmove(target + strlen(way) + sizeof FROM_ROOT - 1, below, strlen(below) + 1);
	memcpy(target, way, strlen(way));
	memcpy(target + strlen(way), FROM_ROOT, sizeof FROM_ROOT - 1);
}

const char *from_root(const char *target)
{
	while (!strncmp(target, "../", 3))
		target += 3;
	return strncmp(target, FROM_ROOT, sizeof FROM_ROOT - 1) ? NULL : target + sizeof FROM_ROOT - 1;
}
