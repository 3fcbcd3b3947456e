/* Linux' own calls from a program that Wine runs (arch/x86/entry/syscalls/syscall_64.tbl), unknown to Wine. */
#ifndef PORTHOLE_LINUX_H
#define PORTHOLE_LINUX_H

#include <stdint.h>

enum { SYS_CLOSE = 3, SYS_POLL = 7, SYS_MADVISE = 28, SYS_GETPID = 39, SYS_SOCKET = 41, SYS_CONNECT = 42, SYS_SENDTO = 44, SYS_RECVFROM = 45, SYS_SENDMSG = 46, SYS_SHUTDOWN = 48,
       SYS_BIND = 49, SYS_GETSOCKNAME = 51, SYS_SETSOCKOPT = 54, SYS_GETSOCKOPT = 55, SYS_FCNTL = 72, SYS_GETUID = 102, SYS_CLOCK_NANOSLEEP = 230 };

/* struct stat of Linux on x86-64 (arch/x86/include/uapi/asm/stat.h). */
struct linux_stat {
	uint64_t dev, ino, nlink;
	uint32_t mode, uid, gid, pad;
	uint64_t rdev;
	int64_t size, blksize, blocks;
	int64_t atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns;
	int64_t reserved[3];
};

/* Kinds of files in mode (include/uapi/linux/stat.h). */
enum { S_IFMT_ = 0170000, S_IFDIR_ = 0040000, S_IFLNK_ = 0120000, S_IFSOCK_ = 0140000 };

struct entry64 { /* linux_dirent64 (include/linux/dirent.h) */
	uint64_t ino;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* linux_call returns what the kernel does: a negative error, or the result. */
static inline intptr_t linux_call(int number, intptr_t first, intptr_t a, intptr_t b, intptr_t c, intptr_t d)
{
	register intptr_t r10 __asm__("r10") = c;
	register intptr_t r8 __asm__("r8") = d;
	register intptr_t r9 __asm__("r9") = 0;
	intptr_t result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"((intptr_t)number), "D"(first), "S"(a), "d"(b), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/* linux_again is linux_call, repeated while a signal cuts it short: Wine stops threads by signals. */
static inline intptr_t linux_again(int number, intptr_t first, intptr_t a, intptr_t b, intptr_t c, intptr_t d)
{
	enum { LINUX_EINTR = 4 };
	intptr_t result;

	do
		result = linux_call(number, first, a, b, c, d);
	while (result == -LINUX_EINTR);
	return result;
}

#endif
