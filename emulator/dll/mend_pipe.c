/* Pipes.
 *
 * Named pipes: Windows 8 and later leave an instance that is made with neither read nor write access disconnected: it only
 * keeps the name. go-winio makes the first instance of each listener so (go-winio pull request 125). Wine lets a client connect to
 * it (server/named_pipe.c, create_pipe_server), and nobody ever answers that client.
 *
 * Linux pipes: the standard handles of a program in a container are named pipes on Windows, and pipes of Linux here. Wine says
 * that they are pipes (GetFileType) and then knows nothing of them as such: SetNamedPipeHandleState and GetNamedPipeInfo fail with
 * ERROR_INVALID_HANDLE, PeekNamedPipe with ERROR_NOT_SUPPORTED. libuv asks the first before it uses a standard handle
 * (src/win/pipe.c, uv__set_pipe_handle). */
#include "mend_pipe.h"

#include <string.h>

#include "linux.h"

#define PIPE_DISCONNECT CTL_CODE(FILE_DEVICE_NAMED_PIPE, 1, METHOD_BUFFERED, FILE_ANY_ACCESS) /* FSCTL_PIPE_DISCONNECT */
#define DATA_ACCESS (GENERIC_READ | GENERIC_WRITE | GENERIC_ALL | FILE_READ_DATA | FILE_WRITE_DATA)

typedef NTSTATUS(NTAPI *create_pipe)(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, ULONG, ULONG, ULONG, ULONG, ULONG,
				     ULONG, ULONG, ULONG, ULONG, LARGE_INTEGER *);

static void *original;

/* Disconnects an instance. Wine does that only after a client has connected, so a client connects first. */
static void disconnect(HANDLE pipe, OBJECT_ATTRIBUTES *name)
{
	OBJECT_ATTRIBUTES plain = *name;
	IO_STATUS_BLOCK io;
	HANDLE client;

	plain.SecurityDescriptor = NULL;
	if (STATUS_OK(NtOpenFile(&client, SYNCHRONIZE | FILE_READ_ATTRIBUTES, &plain, &io, FILE_SHARE_READ | FILE_SHARE_WRITE, 0)))
		NtClose(client);
	NtFsControlFile(pipe, NULL, NULL, NULL, &io, PIPE_DISCONNECT, NULL, 0, NULL, 0);
}

static NTSTATUS NTAPI create_named_pipe(HANDLE *pipe, ULONG access, OBJECT_ATTRIBUTES *name, IO_STATUS_BLOCK *io, ULONG share,
					ULONG disposition, ULONG options, ULONG type, ULONG read_mode, ULONG completion,
					ULONG instances, ULONG in, ULONG out, LARGE_INTEGER *timeout)
{
	NTSTATUS status = ((create_pipe)original)(pipe, access, name, io, share, disposition, options, type, read_mode, completion,
						  instances, in, out, timeout);

	if (STATUS_OK(status) && !(access & DATA_ACCESS))
		disconnect(*pipe, name);
	return status;
}

/* FILE_PIPE_INFORMATION (ntifs.h), class 23. */
struct pipe_modes {
	ULONG read, completion;
};

/* FILE_PIPE_LOCAL_INFORMATION (ntifs.h), class 24. */
struct pipe_local {
	ULONG type, configuration, most, instances, in_quota, available, out_quota, room, state, end;
};

enum { MODES = 23, LOCAL = 24, ACCESS = 8 }; /* FILE_INFORMATION_CLASS; the last is FileAccessInformation */
enum { BYTES = 0, WAITS = 0 };		     /* FILE_PIPE_BYTE_STREAM_MODE, FILE_PIPE_QUEUE_OPERATION */
enum { INBOUND, OUTBOUND, BOTH_WAYS };	     /* FILE_PIPE_INBOUND and so on: as the pipe's server sees it */
enum { CONNECTED = 3 };			     /* FILE_PIPE_CONNECTED_STATE */
enum { QUOTA = 0x10000 };		     /* what a pipe of Linux holds (pipe(7)) */
enum { PIPE_DEVICE = 0x11 };		     /* FILE_DEVICE_NAMED_PIPE */

#define PIPE_PEEK CTL_CODE(FILE_DEVICE_NAMED_PIPE, 3, METHOD_BUFFERED, FILE_READ_DATA) /* FSCTL_PIPE_PEEK */

static BOOL is_pipe(HANDLE file)
{
	struct {
		ULONG type, characteristics;
	} device;
	IO_STATUS_BLOCK io;

	return mend_on[MEND_STANDARD_PIPE] &&
	       STATUS_OK(NtQueryVolumeInformationFile(file, &io, &device, sizeof device, FileFsDeviceInformation)) &&
	       device.type == PIPE_DEVICE;
}

/* Of Linux (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/ioctls.h and poll.h, include/linux/splice.h). */
enum { SYS_READ = 0, SYS_IOCTL = 16, SYS_TEE = 276, SYS_PIPE2 = 293, FIONREAD_ = 0x541B, POLLIN_ = 1, POLLHUP_ = 0x10, CLOEXEC = 0x80000, AT_ONCE = 2 };

#define PIPE_BROKEN ((NTSTATUS)0xC000014B)  /* STATUS_PIPE_BROKEN */
#define NOT_READABLE ((NTSTATUS)0xC0000022) /* STATUS_ACCESS_DENIED */
#define OVERFLOWN ((NTSTATUS)0x80000005)    /* STATUS_BUFFER_OVERFLOW: there is more than fits */

/* FILE_PIPE_PEEK_BUFFER (ntifs.h). */
struct peeked {
	ULONG state, available, messages, message_size;
	char data[];
};

/* Copies what waits in a pipe without taking it, and returns how much that is. */
static ULONG copy_of(int fd, char *data, ULONG size)
{
	intptr_t n = 0;
	int copy[2];

	if (!size || linux_call(SYS_PIPE2, (intptr_t)copy, CLOEXEC, 0, 0, 0))
		return 0;
	if (linux_call(SYS_TEE, fd, copy[1], size, AT_ONCE, 0) > 0)
		n = linux_call(SYS_READ, copy[0], (intptr_t)data, size, 0, 0);
	linux_call(SYS_CLOSE, copy[0], 0, 0, 0, 0);
	linux_call(SYS_CLOSE, copy[1], 0, 0, 0, 0);
	return n > 0 ? (ULONG)n : 0;
}

/* Fills p and size bytes behind it with what waits in a pipe. *copied gets how many those are. */
static NTSTATUS peek(HANDLE file, struct peeked *p, ULONG size, ULONG *copied)
{
	struct {
		int fd;
		short events, seen;
	} state = { 0, POLLIN_, 0 };
	int(CDECL * to_fd)(HANDLE, unsigned, int *, unsigned *) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_server_handle_to_fd");
	NTSTATUS status = 0;
	int waiting = 0;

	if (!to_fd || to_fd(file, FILE_READ_DATA, &state.fd, NULL))
		return NOT_READABLE;
	linux_call(SYS_IOCTL, state.fd, FIONREAD_, (intptr_t)&waiting, 0, 0);
	if (!waiting && linux_call(SYS_POLL, (intptr_t)&state, 1, 0, 0, 0) == 1 && (state.seen & POLLHUP_))
		status = PIPE_BROKEN;
	memset(p, 0, sizeof *p);
	p->state = CONNECTED;
	p->available = (ULONG)waiting;
	*copied = copy_of(state.fd, p->data, size < p->available ? size : p->available);
	linux_call(SYS_CLOSE, state.fd, 0, 0, 0, 0);
	return status ? status : size && size < p->available ? OVERFLOWN : 0;
}

NTSTATUS pipe_control(NTSTATUS status, HANDLE file, IO_STATUS_BLOCK *io, ULONG code, void *out, ULONG size)
{
	ULONG copied = 0;

	if (STATUS_OK(status) || code != PIPE_PEEK || size < sizeof(struct peeked) || !is_pipe(file))
		return status;
	io->Status = peek(file, out, size - sizeof(struct peeked), &copied);
	io->Information = sizeof(struct peeked) + copied;
	return io->Status;
}

/* Describes the client's end of a pipe. What is written has always left already, so that nobody waits for it at the end. */
static struct pipe_local local_of(HANDLE file)
{
	struct pipe_local l = { BYTES, BOTH_WAYS, 1, 1, QUOTA, 0, QUOTA, QUOTA, CONNECTED, 0 };
	ULONG access = FILE_READ_DATA | FILE_WRITE_DATA, copied;
	struct peeked peeked = { 0 };
	IO_STATUS_BLOCK io;

	NtQueryInformationFile(file, &io, &access, sizeof access, (FILE_INFORMATION_CLASS)ACCESS);
	if (!(access & FILE_WRITE_DATA))
		l.configuration = OUTBOUND;
	else if (!(access & FILE_READ_DATA))
		l.configuration = INBOUND;
	if (l.configuration != INBOUND && STATUS_OK(peek(file, &peeked, 0, &copied)))
		l.available = peeked.available;
	return l;
}

NTSTATUS pipe_query(NTSTATUS status, HANDLE file, IO_STATUS_BLOCK *io, void *info, ULONG size, ULONG class)
{
	struct pipe_modes modes = { BYTES, WAITS };
	struct pipe_local local;
	ULONG used = class == MODES ? sizeof modes : sizeof local;

	if (STATUS_OK(status) || (class != MODES && class != LOCAL) || size < used || !is_pipe(file))
		return status;
	if (class == MODES) {
		memcpy(info, &modes, used);
	} else {
		local = local_of(file);
		memcpy(info, &local, used);
	}
	io->Status = 0;
	io->Information = used;
	return 0;
}

NTSTATUS pipe_set(NTSTATUS status, HANDLE file, IO_STATUS_BLOCK *io, const void *info, ULONG size, ULONG class)
{
	struct pipe_modes modes;

	if (STATUS_OK(status) || class != MODES || size < sizeof modes || !is_pipe(file))
		return status;
	memcpy(&modes, info, sizeof modes);
	if (modes.read != BYTES || modes.completion != WAITS)
		return status; /* a pipe of Linux has no messages, and calls on this one wait */
	io->Status = 0;
	io->Information = 0;
	return 0;
}

struct mend pipe_mends[] = {
	{ "NtCreateNamedPipeFile", "the first client of a named pipe of Go is never answered", (void *)create_named_pipe, &original, NULL, FALSE },
	{ 0 },
};
