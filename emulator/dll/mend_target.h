/* Targets of symbolic links (mend_link.c) that are whole paths. Such a target is kept as the way from the link's folder up to the root of C:,
 * a mark that says so, and the path below C:, as "../.././/var/log" for a link in C:\var\lib. So a link leads to the same path of C: wherever its
 * folder is mounted at the same place: the C: of a container is another folder of Linux than that of the host. */
#ifndef MEND_TARGET_H
#define MEND_TARGET_H

#include "mend.h"

enum { PATH_BYTES = 4096 };

/* Of Linux (include/uapi/linux/fcntl.h, arch/x86/entry/syscalls/syscall_64.tbl). */
enum { AT_FDCWD = -100, O_DIRECTORY_ = 0x10000, O_NOFOLLOW = 0x20000, O_CLOEXEC = 0x80000, O_PATH = 0x200000, SYS_READLINK = 89, SYS_OPENAT = 257 };

/* Copies the present path of an open file to path, which has PATH_BYTES as all paths here. */
BOOL path_of(int fd, char *path);

/* Copies the present path of a folder to path. */
BOOL folder_path(int folder, const char *name, char *path);

/* Makes of a target on C: (.../dosdevices/c:/...) one that is counted from the link's folder, whose present path is given. Others stay. */
void from_folder(const char *folder, char *target);

/* Returns what a target names below the root of C:; NULL: it is counted otherwise. */
const char *from_root(const char *target);

#endif
