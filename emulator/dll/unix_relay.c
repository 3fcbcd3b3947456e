#include "unix_relay.h"

#include <winternl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linux.h"

/* Of Linux: socket.h, un.h, fcntl.h, errno.h, poll.h. */
enum { SYS_LISTEN = 50, SYS_GETPEERNAME = 52, SYS_OPENAT = 257, SYS_FCHMODAT = 268, SYS_ACCEPT4 = 288 };
enum { LINUX_UNIX = 1, LINUX_INET = 2, STREAM_CLOEXEC = 1 | 02000000, CLOEXEC = 02000000, SHUT_WRITE = 1, SHUT_BOTH = 2, NO_SIGNAL = 0x4000, BACKLOG = 128, POLL_IN = 1 };
enum { AT_FDCWD_ = -100, PATH_DIRECTORY = 0x200000 | 0x10000 | 0x80000, OPEN_TO_ALL = 0666 };
enum { E_NOENT = 2, E_ACCES = 13, E_ADDRINUSE = 98, E_CONNREFUSED = 111 };
enum { PATH_BYTES = 4096, BUFFER = 64 << 10, STACK = 128 << 10, DIAL_MS = 10000, DRAIN_MS = 2000, PENDING = 256 };
#define LOOPBACK 0x0100007f /* 127.0.0.1 in network order */
#define NO_SUCH_FILE_ ((NTSTATUS)0xC000000F)

struct unix_name {
	unsigned short family;
	char path[108]; /* UNIX_PATH_MAX */
};

struct inet_name {
	unsigned short family, port;
	unsigned address;
	BYTE zero[8];
};

/* A connection: the TCP socket that the program's is connected to, and the one that is a file's. */
struct relay {
	int app, peer;
	LONG threads;	/* that forward: the last of them closes both sockets */
	LONG users;	/* threads and others that have this */
	HANDLE written; /* set when everything that the program has written is forwarded */
};

static void close_fd(int fd) { linux_call(SYS_CLOSE, fd, 0, 0, 0, 0); }

void relay_drop(int fd)
{
	if (fd >= 0)
		close_fd(fd);
}

/* Finds the folder of a Windows path and the name in it. Returns the open folder, which the caller closes; -1: there is none. */
static int folder_of(const WCHAR *path, char *name, size_t room)
{
	NTSTATUS(CDECL * to_unix)(const OBJECT_ATTRIBUTES *, char *, ULONG *, UINT) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_nt_to_unix_file_name");
	BOOLEAN(NTAPI * to_nt)(const WCHAR *, UNICODE_STRING *, WCHAR **, void *) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlDosPathNameToNtPathName_U");
	void(NTAPI * release)(UNICODE_STRING *) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlFreeUnicodeString");
	char whole[PATH_BYTES], *last;
	ULONG size = sizeof whole;
	OBJECT_ATTRIBUTES object;
	UNICODE_STRING text;
	NTSTATUS status;

	if (!to_unix || !to_nt || !release || !to_nt(path, &text, NULL, NULL))
		return -1;
	InitializeObjectAttributes(&object, &text, OBJ_CASE_INSENSITIVE, NULL, NULL);
	status = to_unix(&object, whole, &size, FILE_OPEN_IF);
	release(&text);
	last = status >= 0 || status == NO_SUCH_FILE_ ? strrchr(whole, '/') : NULL;
	if (!last || !last[1] || strlen(last + 1) >= room)
		return -1;
	strcpy(name, last + 1);
	last[1] = 0;
	return (int)linux_again(SYS_OPENAT, AT_FDCWD_, (intptr_t)whole, PATH_DIRECTORY, 0, 0);
}

/* Names the file in an open folder: the whole path may be longer than an address has room for. FALSE: the name alone is. */
static BOOL address_of(int folder, const char *name, struct unix_name *to)
{
	int n;

	to->family = LINUX_UNIX;
	n = snprintf(to->path, sizeof to->path, "/proc/self/fd/%d/%s", folder, name);
	return n > 0 && n < (int)sizeof to->path;
}

static int error_of(intptr_t result)
{
	switch (-result) {
	case E_ACCES:
		return WSAEACCES;
	case E_ADDRINUSE:
		return WSAEADDRINUSE;
	case E_NOENT:
	case E_CONNREFUSED:
		return WSAECONNREFUSED;
	}
	return result < 0 ? WSAENETDOWN : 0;
}

int relay_listen(const WCHAR *path, int *listener)
{
	char name[PATH_BYTES];
	struct unix_name at;
	int folder = folder_of(path, name, sizeof name);
	intptr_t s, result;

	if (folder < 0)
		return WSAENETDOWN;
	if (!address_of(folder, name, &at)) {
		close_fd(folder);
		return WSAEINVAL;
	}
	s = linux_again(SYS_SOCKET, LINUX_UNIX, STREAM_CLOEXEC, 0, 0, 0);
	result = s < 0 ? s : linux_again(SYS_BIND, s, (intptr_t)&at, sizeof at, 0, 0);
	if (!result) { /* the folder says who comes to the file, as on Windows */
		linux_again(SYS_FCHMODAT, folder, (intptr_t)name, OPEN_TO_ALL, 0, 0);
		result = linux_again(SYS_LISTEN, s, BACKLOG, 0, 0, 0);
	}
	close_fd(folder);
	if (result && s >= 0)
		close_fd((int)s);
	*listener = (int)s;
	return error_of(result);
}

int relay_dial(const WCHAR *path, int *peer)
{
	char name[PATH_BYTES];
	struct unix_name at;
	int folder = folder_of(path, name, sizeof name);
	intptr_t s, result;

	if (folder < 0)
		return WSAECONNREFUSED;
	if (!address_of(folder, name, &at)) {
		close_fd(folder);
		return WSAEINVAL;
	}
	s = linux_again(SYS_SOCKET, LINUX_UNIX, STREAM_CLOEXEC, 0, 0, 0);
	result = s < 0 ? s : linux_again(SYS_CONNECT, s, (intptr_t)&at, sizeof at, 0, 0);
	close_fd(folder);
	if (result && s >= 0)
		close_fd((int)s);
	*peer = (int)s;
	return error_of(result);
}

/* Forwarding. */

static void leave(struct relay *r)
{
	if (InterlockedDecrement(&r->users))
		return;
	CloseHandle(r->written);
	free(r);
}

/* A thread, or the place of one that could not begin, is over. */
static void thread_ended(struct relay *r)
{
	if (!InterlockedDecrement(&r->threads)) {
		close_fd(r->app);
		close_fd(r->peer);
	}
	leave(r);
}

/* Forwards until the end of from, which the other side is told; after an error both ends are over. */
static void forward(int from, int to)
{
	BYTE *buffer = malloc(BUFFER);
	intptr_t n = -1, sent, done;

	while (buffer && (n = linux_again(SYS_RECVFROM, from, (intptr_t)buffer, BUFFER, 0, 0)) > 0)
		for (done = 0; done < n; done += sent) {
			sent = linux_again(SYS_SENDTO, to, (intptr_t)buffer + done, n - done, NO_SIGNAL, 0);
			if (sent <= 0) {
				linux_again(SYS_SHUTDOWN, from, SHUT_BOTH, 0, 0, 0);
				break;
			}
		}
	linux_again(SYS_SHUTDOWN, to, n ? SHUT_BOTH : SHUT_WRITE, 0, 0, 0);
	free(buffer);
}

static DWORD WINAPI to_peer(void *relay)
{
	struct relay *r = relay;

	forward(r->app, r->peer);
	SetEvent(r->written);
	thread_ended(r);
	return 0;
}

static DWORD WINAPI to_app(void *relay)
{
	struct relay *r = relay;

	forward(r->peer, r->app);
	thread_ended(r);
	return 0;
}

static BOOL begin_thread(LPTHREAD_START_ROUTINE routine, void *with)
{
	HANDLE thread = CreateThread(NULL, STACK, routine, with, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);

	if (thread)
		CloseHandle(thread);
	return thread != NULL;
}

/* Makes the connection of two sockets, which are closed if it returns NULL. The caller has it, and calls
 * begin or give_up. */
static struct relay *new_relay(int app, int peer)
{
	struct relay *r = calloc(1, sizeof *r);
	HANDLE written = r ? CreateEventW(NULL, TRUE, FALSE, NULL) : NULL;

	if (!written) {
		free(r);
		close_fd(app);
		close_fd(peer);
		return NULL;
	}
	*r = (struct relay){ app, peer, 2, 3, written };
	return r;
}

/* Begins to forward. */
static void begin(struct relay *r)
{
	if (!begin_thread(to_peer, r)) {
		SetEvent(r->written);
		thread_ended(r);
	}
	if (!begin_thread(to_app, r))
		thread_ended(r);
}

/* Closes both sockets of a connection that does not begin. */
static void give_up(struct relay *r)
{
	SetEvent(r->written);
	thread_ended(r);
	thread_ended(r);
}

void relay_end(struct relay *r)
{
	if (!r)
		return;
	WaitForSingleObject(r->written, DRAIN_MS);
	leave(r);
}

/* The side of who connects. */

static int inet_socket(struct inet_name *name)
{
	unsigned size = sizeof *name;
	intptr_t s = linux_again(SYS_SOCKET, LINUX_INET, STREAM_CLOEXEC, 0, 0, 0);

	*name = (struct inet_name){ LINUX_INET, 0, LOOPBACK, { 0 } };
	if (s >= 0 && (linux_again(SYS_BIND, s, (intptr_t)name, sizeof *name, 0, 0) || linux_again(SYS_GETSOCKNAME, s, (intptr_t)name, (intptr_t)&size, 0, 0))) {
		close_fd((int)s);
		return -1;
	}
	return (int)s;
}

int relay_open(u_short *port)
{
	struct inet_name name;
	int s = inet_socket(&name);

	if (s < 0)
		return -1;
	*port = name.port;
	if (!linux_again(SYS_LISTEN, s, 1, 0, 0, 0))
		return s;
	close_fd(s);
	return -1;
}

struct relay *relay_join(int opened, u_short from, int peer)
{
	ULONGLONG last = GetTickCount64() + DIAL_MS, now;
	struct relay *r;
	intptr_t app = -1;

	while (app < 0 && (now = GetTickCount64()) < last) {
		struct {
			int fd;
			short events, seen;
		} wait = { opened, POLL_IN, 0 };
		struct inet_name name;
		unsigned size = sizeof name;

		linux_again(SYS_POLL, (intptr_t)&wait, 1, (intptr_t)(last - now), 0, 0);
		if (!wait.seen)
			continue;
		app = linux_again(SYS_ACCEPT4, opened, (intptr_t)&name, (intptr_t)&size, CLOEXEC, 0);
		if (app >= 0 && (name.address != LOOPBACK || name.port != from)) { /* a stranger's */
			close_fd((int)app);
			app = -1;
		}
	}
	close_fd(opened);
	if (app < 0) {
		close_fd(peer);
		return NULL;
	}
	r = new_relay((int)app, peer);
	if (r)
		begin(r);
	return r;
}

/* The side of who listens. */

/* Connections of this process to its own listeners that have not been accepted yet, by their port of the loopback; 0 is none. */
static struct {
	u_short port;
	struct relay *relay;
} pending[PENDING];
static SRWLOCK pending_lock = SRWLOCK_INIT;

/* Adds a connection in the place of the oldest: a program that does not ask whose its connections are takes none out. */
static void add_pending(u_short port, struct relay *r)
{
	static unsigned next;
	struct relay *oldest;
	unsigned i;

	InterlockedIncrement(&r->users);
	AcquireSRWLockExclusive(&pending_lock);
	i = next++ % PENDING;
	oldest = pending[i].port ? pending[i].relay : NULL;
	pending[i].port = port;
	pending[i].relay = r;
	ReleaseSRWLockExclusive(&pending_lock);
	if (oldest)
		leave(oldest);
}

struct relay *relay_accepted(u_short port)
{
	struct relay *found = NULL;
	int i;

	AcquireSRWLockExclusive(&pending_lock);
	for (i = 0; port && i < PENDING && !found; i++)
		if (pending[i].port == port) {
			pending[i].port = 0;
			found = pending[i].relay;
		}
	ReleaseSRWLockExclusive(&pending_lock);
	return found;
}

struct serving {
	int listener;
	u_short port;
};

/* Connects a client to the program. The port is remembered before the program can see the connection, and nobody else can have it. */
static void pass(int client, u_short port)
{
	struct inet_name own, to = { LINUX_INET, port, LOOPBACK, { 0 } };
	int app = inet_socket(&own);
	struct relay *r, *unused;

	if (app < 0) {
		close_fd(client);
		return;
	}
	r = new_relay(app, client);
	if (!r)
		return;
	add_pending(own.port, r);
	if (!linux_again(SYS_CONNECT, app, (intptr_t)&to, sizeof to, 0, 0)) {
		begin(r);
	} else { /* the program does not listen yet, or has its hands full */
		unused = relay_accepted(own.port);
		if (unused)
			leave(unused);
		give_up(r);
	}
	leave(r);
}

static DWORD WINAPI serve(void *with)
{
	struct serving s = *(struct serving *)with;
	intptr_t client;

	free(with);
	while ((client = linux_again(SYS_ACCEPT4, s.listener, 0, 0, CLOEXEC, 0)) >= 0)
		pass((int)client, s.port);
	close_fd(s.listener);
	return 0;
}

BOOL relay_serve(int listener, u_short port)
{
	struct serving *s = malloc(sizeof *s);

	if (!s)
		return FALSE;
	*s = (struct serving){ listener, port };
	if (begin_thread(serve, s))
		return TRUE;
	free(s);
	return FALSE;
}

void relay_stop(int listener) { linux_again(SYS_SHUTDOWN, listener, SHUT_BOTH, 0, 0, 0); }
