/* Asks hnsd to mark a socket: serve/marks_linux.go of emulator/hnsd says what is sent. */
#include "mark.h"

#include <string.h>

#include <winsock2.h>
#include <windows.h>

#include "linux.h"
#include "ops.h"

/* Of Linux: socket.h, un.h. */
enum { L_AF_UNIX = 1, L_SEQPACKET_CLOEXEC = 5 | 02000000, L_SOL_SOCKET = 1, L_SCM_RIGHTS = 1, L_SO_PEERCRED = 17, L_SO_RCVTIMEO = 20, L_SO_SNDTIMEO = 21, L_MSG_NOSIGNAL = 0x4000 };

/* An abstract address: its first byte is 0, and it ends where its length says. */
struct abstract_name {
	uint16_t family;
	char zero, name[sizeof MARK_SOCKET - 1];
};

/* A message with one descriptor beside its bytes (struct msghdr, iovec and cmsghdr of x86-64). */
struct piece {
	void *data;
	uint64_t size;
};

struct descriptor {
	uint64_t size;
	int32_t level, type;
	int32_t fd, pad;
};

struct message {
	void *name;
	uint32_t name_size, pad;
	struct piece *pieces;
	uint64_t piece_count;
	struct descriptor *control;
	uint64_t control_size;
	int32_t flags, pad_too;
};

/* program_mark returns the mark of this program's sockets: Mark of package emulator/firewall. */
static uint32_t program_mark(void)
{
	static uint32_t mark; /* 0: not known yet; every thread finds the same */
	WCHAR path[MAX_PATH];
	uint32_t hash = 2166136261u; /* FNV-1a */
	DWORD i, length;

	if (mark)
		return mark;
	length = GetModuleFileNameW(NULL, path, MAX_PATH);
	for (i = 0; i < length; i++) {
		WCHAR c = path[i] >= L'A' && path[i] <= L'Z' ? path[i] + (L'a' - L'A') : path[i];

		hash = (hash ^ (c & 0xff)) * 16777619u;
		hash = (hash ^ (c >> 8)) * 16777619u;
	}
	return mark = 0xf0000000u | hash >> 4;
}

/* in_container: 0 is the user of all programs there, so that nobody can tell whether root of the machine listens. Another container of the pod
 * could. */
static BOOL in_container(void) { return linux_call(SYS_GETUID, 0, 0, 0, 0, 0) == 0; }

/* is_root reports whether root of the machine listens at the other end. */
static BOOL is_root(int fd)
{
	struct {
		int32_t pid;
		uint32_t uid, gid;
	} peer; /* struct ucred */
	uint32_t size = sizeof peer;

	return !linux_call(SYS_GETSOCKOPT, fd, L_SOL_SOCKET, L_SO_PEERCRED, (intptr_t)&peer, (intptr_t)&size) && peer.uid == 0;
}

/* open_hnsd connects to where hnsd marks sockets. Of the calls that follow none waits longer than MARK_MS for an hnsd that hangs, unless
 * signals interrupt it. */
static int open_hnsd(void)
{
	static const struct abstract_name at = { L_AF_UNIX, 0, { MARK_SOCKET } };
	int64_t limit[2] = { MARK_MS / 1000, MARK_MS % 1000 * 1000 }; /* struct timeval */
	int fd = (int)linux_again(SYS_SOCKET, L_AF_UNIX, L_SEQPACKET_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return -1;
	linux_call(SYS_SETSOCKOPT, fd, L_SOL_SOCKET, L_SO_SNDTIMEO, (intptr_t)limit, sizeof limit);
	linux_call(SYS_SETSOCKOPT, fd, L_SOL_SOCKET, L_SO_RCVTIMEO, (intptr_t)limit, sizeof limit);
	if (!linux_again(SYS_CONNECT, fd, (intptr_t)&at, sizeof at.family + 1 + sizeof at.name, 0, 0) && is_root(fd))
		return fd;
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return -1;
}

void mark_socket(int fd)
{
	uint32_t mark = program_mark();
	struct piece bytes = { &mark, sizeof mark };
	struct descriptor socket = { sizeof socket - sizeof socket.pad, L_SOL_SOCKET, L_SCM_RIGHTS, fd };
	struct message request = { .pieces = &bytes, .piece_count = 1, .control = &socket, .control_size = sizeof socket };
	char done;
	int hnsd = in_container() ? -1 : open_hnsd();

	if (hnsd < 0)
		return;
	if (linux_again(SYS_SENDMSG, hnsd, (intptr_t)&request, L_MSG_NOSIGNAL, 0, 0) > 0)
		linux_again(SYS_RECVFROM, hnsd, (intptr_t)&done, 1, 0, 0);
	linux_call(SYS_CLOSE, hnsd, 0, 0, 0, 0);
}
