/* What Windows says of a symbolic link or of a socket's file, made of what Linux does (mend_link.c). */
#ifndef MEND_LINK_INFO_H
#define MEND_LINK_INFO_H

#include "mend.h"

#include "linux.h"

#define TAG_SYMLINK 0xA000000Cu
#define TAG_SOCKET 0x80000023u /* IO_REPARSE_TAG_AF_UNIX */

#define TOO_SMALL ((NTSTATUS)0xC0000023)
#define BAD_CLASS ((NTSTATUS)0xC0000003)

/* FILE_BASIC_INFORMATION and FILE_NETWORK_OPEN_INFORMATION. */
struct basic {
	int64_t created, read, written, changed;
	ULONG attributes, pad;
};

struct network {
	int64_t created, read, written, changed, allocated, size;
	ULONG attributes, pad;
};

/* Returns the tag of the reparse point that a file is on Windows, or 0: it is none. */
ULONG tag_of(const struct linux_stat *s);

/* folder says whether the link leads to a folder. */
struct basic basic_of(const struct linux_stat *s, BOOL folder);
struct network network_of(const struct basic *b);

/* Answers NtQueryInformationFile. *used is set to the size. BAD_CLASS: what is asked for is not about the link. */
NTSTATUS link_describe(const struct linux_stat *s, BOOL folder, ULONG class, void *info, ULONG size, ULONG_PTR *used);

/* Takes the mark of a reparse point from what Wine has answered about something that is no link. Wine marks a folder that is a mount of Linux
 * so (fd_get_file_info in dlls/ntdll/unix/file.c). Such mounts are what Windows makes with its bind filter: "Bind Links are transparent to
 * applications and all existing APIs work without the knowledge of this redirection" (Microsoft, "Overview of the Bindlink API"). */
void no_mount(ULONG class, void *info);

#endif
