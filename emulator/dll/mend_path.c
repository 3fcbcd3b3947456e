/* Paths that begin with a slash and name no drive, as /var/log/containers, which upstream's kubelet and other programs in Go have. On Windows they
 * are on the current drive, as those with a backslash. Wine takes them for paths of Linux if a drive shows the root of Linux, as Z: of a host does. */
#include "mend.h"

#include <string.h>

static ULONG(NTAPI *original)(const WCHAR *, ULONG, WCHAR *, WCHAR **);

static ULONG NTAPI full_path_name(const WCHAR *name, ULONG size, WCHAR *path, WCHAR **file)
{
	size_t room;
	WCHAR *copy;
	ULONG length;

	if (!name || name[0] != L'/' || name[1] == L'/' || name[1] == L'\\')
		return original(name, size, path, file);
	room = ((size_t)lstrlenW(name) + 1) * sizeof(WCHAR);
	copy = HeapAlloc(GetProcessHeap(), 0, room);
	if (!copy)
		return 0;

	memcpy(copy, name, room);
	*copy = L'\\';
	length = original(copy, size, path, file);
	HeapFree(GetProcessHeap(), 0, copy);
	return length;
}

struct mend path_mends[] = {
	{ "RtlGetFullPathName_U", "paths with a slash and no drive are on Z:", (void *)full_path_name, (void **)&original, NULL, FALSE, L"ntdll.dll" },
	{ 0 },
};
