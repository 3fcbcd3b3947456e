/* Folders of imported layers. The folder Files of one shows the files of the layers below it (package emulator/hcsd). On Windows a folder
 * that comes from below is a placeholder, which is deleted at once with all that it shows: hcsshim deletes so what an image
 * deletes (internal/wclayer/importlayer.go). Here it is a folder with files in it, which Wine does not delete. */
#include "mend_layer.h"

#include <stdio.h>
#include <string.h>

#include "linux.h"

enum { SYS_ACCESS = 21, SYS_READLINK = 89, SYS_GETDENTS64 = 217, SYS_OPENAT = 257, SYS_UNLINKAT = 263 };
enum { AT_REMOVEDIR = 0x200, O_DIRECTORY_ = 0x10000, O_NOFOLLOW = 0x20000, O_CLOEXEC = 0x80000 };
enum { DT_DIR = 4 };
enum { DEEPEST = 100 /* folders in one another, for the stack */, PATH_BYTES = 4096, LIST_BYTES = 2048 };

/* Reports whether a path is below the folder Files of an imported layer, which has the file hcs-layer beside it. */
static BOOL in_layer(char *path)
{
	static const char files[] = "/Files/", marker[] = "/hcs-layer";
	char *at, after[sizeof marker];
	BOOL found = FALSE;

	for (at = strstr(path, files); at && !found; at = strstr(at + 1, files)) {
		memcpy(after, at, sizeof after);
		memcpy(at, marker, sizeof marker);
		found = linux_call(SYS_ACCESS, (intptr_t)path, 0, 0, 0, 0) == 0;
		memcpy(at, after, sizeof after);
	}
	return found;
}

/* Removes what is in a folder; links are removed and not followed. */
static void empty(intptr_t folder, int depth)
{
	BYTE list[LIST_BYTES] __attribute__((aligned(8)));
	intptr_t fd = linux_call(SYS_OPENAT, folder, (intptr_t)".", O_DIRECTORY_ | O_CLOEXEC, 0, 0), length, at, below;

	while (fd >= 0 && (length = linux_call(SYS_GETDENTS64, fd, (intptr_t)list, sizeof list, 0, 0)) > 0)
		for (at = 0; at < length; at += ((struct entry64 *)(list + at))->size) {
			const struct entry64 *e = (struct entry64 *)(list + at);
			if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0)
				continue;
			if (e->type != DT_DIR) {
				linux_call(SYS_UNLINKAT, fd, (intptr_t)e->name, 0, 0, 0);
				continue;
			}
			below = linux_call(SYS_OPENAT, fd, (intptr_t)e->name, O_DIRECTORY_ | O_NOFOLLOW | O_CLOEXEC, 0, 0);
			if (below >= 0 && depth < DEEPEST)
				empty(below, depth + 1);
			if (below >= 0)
				linux_call(SYS_CLOSE, below, 0, 0, 0, 0);
			linux_call(SYS_UNLINKAT, fd, (intptr_t)e->name, AT_REMOVEDIR, 0, 0);
		}
	if (fd >= 0)
		linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
}

BOOL layer_empty(HANDLE folder)
{
	int(CDECL * to_fd)(HANDLE, unsigned, int *, unsigned *) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_server_handle_to_fd");
	char entry[40], path[PATH_BYTES];
	intptr_t length;
	BOOL inside;
	int fd;

	if (!to_fd || to_fd(folder, 0, &fd, NULL))
		return FALSE;
	snprintf(entry, sizeof entry, "/proc/self/fd/%d", fd);
	length = linux_call(SYS_READLINK, (intptr_t)entry, (intptr_t)path, sizeof path - 16, 0, 0);
	if (length < 0)
		length = 0;
	memset(path + length, 0, sizeof path - length); /* in_layer reads some bytes behind the end */
	inside = in_layer(path);
	if (inside)
		empty(fd, 0);
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return inside;
}
