/* Forwards the connections of named pipes to sockets of Linux. A pipe of Wine exists between the programs of one wineserver, which the host
 * and each of its containers have of their own: a pipe of the host that is mapped into a container is --serve there, a socket of the Host
 * Compute Service (emulator/hcsd/container/pipe_linux.go), and --open on the host for each connection.
 *
 *     porthole-pipe.exe \\.\pipe\NAME PORT      serves for a TCP port of the loopback until it is killed
 *     porthole-pipe.exe --serve NAME PATH READY ...   serves \\.\pipe\NAME for the socket of that path; makes the file READY when it does
 *     porthole-pipe.exe --open PIPE             connects to a pipe for the socket that its standard input is, and ends with either
 *     porthole-pipe.exe --check                 reports whether a pipe of this Wine carries bytes: exit code 0 if so
 *
 * It prints on standard error which functions of this Wine could not be mended (mend.h). */
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linux.h"

#define BUFFER (64 << 10) /* bytes, of each direction of a connection: more than a usual CRI answer */
#define STACK (64 << 10)
enum { DIRECTIONS = 2 };
#define BUSY_MS 5000	   /* for an instance of a pipe to become free */
#define LOOPBACK 0x0100007f /* 127.0.0.1 in network order */

/* Of Linux: socket.h, tcp.h, errno.h. */
enum { LINUX_OPEN = 2, LINUX_O_CREAT_WRONLY = 0101, LINUX_AF_UNIX = 1, LINUX_AF_INET = 2, LINUX_SOCK_STREAM_CLOEXEC = 1 | 02000000, LINUX_SHUT_RDWR = 2, LINUX_IPPROTO_TCP = 6, LINUX_TCP_NODELAY = 1,
       LINUX_MSG_NOSIGNAL = 0x4000 };

/* Where connections go: a path, or a port of the loopback if there is none. */
struct target {
	const char *path, *ready; /* ready: the file that is made when the pipe is served */
	unsigned short port;
};

/* A client, the socket that serves it, and the two threads between them. */
struct connection {
	HANDLE pipe, over; /* over is set when the socket's end was reached */
	int socket;
	LONG threads;
	BYTE up[BUFFER], down[BUFFER];
};

static int say(const char *what)
{
	fprintf(stderr, "porthole-pipe: %s (error %lu)\n", what, GetLastError());
	return 1;
}

/* Waits for the operation that was begun with o on the pipe. Returns FALSE after an error, and when the pipe or the connection has ended. */
static BOOL finished(HANDLE pipe, OVERLAPPED *o, BOOL begun, HANDLE over, DWORD *count)
{
	HANDLE both[2] = { o->hEvent, over };

	if (!begun && GetLastError() != ERROR_IO_PENDING)
		return FALSE;
	if (!begun && WaitForMultipleObjects(over ? 2 : 1, both, FALSE, INFINITE) != WAIT_OBJECT_0)
		CancelIoEx(pipe, o);
	return GetOverlappedResult(pipe, o, count, TRUE);
}

static void leave(struct connection *c)
{
	if (InterlockedDecrement(&c->threads))
		return;
	CloseHandle(c->pipe);
	CloseHandle(c->over);
	linux_call(SYS_CLOSE, c->socket, 0, 0, 0, 0);
	free(c);
}

static intptr_t socket_call(int number, int socket, BYTE *data, size_t size)
{
	return linux_again(number, socket, (intptr_t)data, size, LINUX_MSG_NOSIGNAL, 0);
}

static DWORD WINAPI to_socket(void *connection)
{
	struct connection *c = connection;
	OVERLAPPED o = { .hEvent = CreateEventW(NULL, TRUE, FALSE, NULL) };
	DWORD count, sent;
	intptr_t n = 0;

	while (n >= 0 && finished(c->pipe, &o, ReadFile(c->pipe, c->up, BUFFER, NULL, &o), c->over, &count))
		for (sent = 0; sent < count && n >= 0; sent += n)
			n = socket_call(SYS_SENDTO, c->socket, c->up + sent, count - sent);
	linux_call(SYS_SHUTDOWN, c->socket, LINUX_SHUT_RDWR, 0, 0, 0);
	CloseHandle(o.hEvent);
	leave(c);
	return 0;
}

static DWORD WINAPI to_pipe(void *connection)
{
	struct connection *c = connection;
	OVERLAPPED o = { .hEvent = CreateEventW(NULL, TRUE, FALSE, NULL) };
	DWORD wrote;
	intptr_t n;

	while ((n = socket_call(SYS_RECVFROM, c->socket, c->down, BUFFER)) > 0)
		if (!finished(c->pipe, &o, WriteFile(c->pipe, c->down, (DWORD)n, NULL, &o), NULL, &wrote))
			break;
	SetEvent(c->over);
	CloseHandle(o.hEvent);
	leave(c);
	return 0;
}

/* Connects a Linux socket, whose calls do not pass through Wine's server. Returns -1 after an error. */
static int dial_address(int family, const void *to, size_t size)
{
	int socket = (int)linux_call(SYS_SOCKET, family, LINUX_SOCK_STREAM_CLOEXEC, 0, 0, 0);

	if (socket < 0)
		return -1;
	if (linux_call(SYS_CONNECT, socket, (intptr_t)to, size, 0, 0) < 0) {
		linux_call(SYS_CLOSE, socket, 0, 0, 0, 0);
		return -1;
	}
	return socket;
}

static int dial(struct target at)
{
	struct {
		unsigned short family;
		char path[108]; /* UNIX_PATH_MAX */
	} local = { LINUX_AF_UNIX, "" };
	struct {
		unsigned short family, port;
		unsigned int address;
		BYTE rest[8];
	} to = { LINUX_AF_INET, (unsigned short)(at.port >> 8 | at.port << 8), LOOPBACK, { 0 } };
	int one = 1, socket;

	if (at.path) {
		lstrcpynA(local.path, at.path, sizeof local.path);
		return dial_address(LINUX_AF_UNIX, &local, sizeof local);
	}
	if ((socket = dial_address(LINUX_AF_INET, &to, sizeof to)) >= 0)
		linux_call(SYS_SETSOCKOPT, socket, LINUX_IPPROTO_TCP, LINUX_TCP_NODELAY, (intptr_t)&one, sizeof one);
	return socket;
}

/* Carries bytes between a connected pipe and a socket, and closes both at the end. */
static void carry(HANDLE pipe, int socket, HANDLE *threads)
{
	LPTHREAD_START_ROUTINE direction[DIRECTIONS] = { to_socket, to_pipe };
	struct connection *c = calloc(1, sizeof *c);
	int i;

	if (!c)
		exit(say("serving a connection"));
	c->socket = socket;
	c->pipe = pipe;
	c->over = CreateEventW(NULL, TRUE, FALSE, NULL);
	c->threads = DIRECTIONS;
	for (i = 0; i < DIRECTIONS; i++) { /* not c->threads: a thread may end before the next one begins, and the last one frees c */
		HANDLE thread = CreateThread(NULL, STACK, direction[i], c, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);

		if (!thread)
			exit(say("making a thread"));
		if (threads)
			threads[i] = thread;
		else
			CloseHandle(thread);
	}
}

/* Serves a connected pipe. If nobody listens at the target, it closes the pipe at once, and the client tries again. */
static void serve(HANDLE pipe, struct target at)
{
	int socket = dial(at);

	if (socket < 0)
		CloseHandle(pipe);
	else
		carry(pipe, socket, NULL);
}

static HANDLE instance(const char *name, DWORD first)
{
	return CreateNamedPipeA(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | first, PIPE_REJECT_REMOTE_CLIENTS,
				PIPE_UNLIMITED_INSTANCES, BUFFER, BUFFER, 0, NULL);
}

/* Says that a pipe can be opened. */
static void ready(const char *path)
{
	intptr_t made = linux_call(LINUX_OPEN, (intptr_t)path, LINUX_O_CREAT_WRONLY, 0644, 0, 0);

	if (made >= 0)
		linux_call(SYS_CLOSE, made, 0, 0, 0, 0);
}

static int serve_all(const char *name, struct target at)
{
	HANDLE pipe = instance(name, FILE_FLAG_FIRST_PIPE_INSTANCE);
	OVERLAPPED o = { .hEvent = CreateEventW(NULL, TRUE, FALSE, NULL) };

	if (pipe == INVALID_HANDLE_VALUE)
		return say("making the pipe");
	if (at.path)
		ready(at.ready);
	else
		fprintf(stderr, "porthole-pipe: serving %s for 127.0.0.1:%d\n", name, at.port);
	for (;;) {
		BOOL done = ConnectNamedPipe(pipe, &o);
		DWORD none;

		if (done || GetLastError() == ERROR_PIPE_CONNECTED || finished(pipe, &o, FALSE, NULL, &none))
			serve(pipe, at);
		else
			CloseHandle(pipe); /* the client has gone already */
		pipe = instance(name, 0);
		if (pipe == INVALID_HANDLE_VALUE)
			return say("making the pipe's next instance");
	}
}

/* One of the pipes of --serve. */
static DWORD WINAPI serve_one(void *words)
{
	const char **pair = words;
	static const char head[] = "\\\\.\\pipe\\";
	char name[sizeof head + 256]; /* the longest name of a pipe, learn.microsoft.com CreateNamedPipeA */

	lstrcpyA(name, head);
	lstrcpynA(name + sizeof head - 1, pair[0], 257);
	return (DWORD)serve_all(name, (struct target){ .path = pair[1], .ready = pair[2] });
}

/* Serves until it is killed, or until one of the pipes cannot be made. */
static int serve_pairs(const char **words, int count)
{
	HANDLE threads[MAXIMUM_WAIT_OBJECTS];
	int i, n = 0;

	for (i = 0; i + 2 < count && n < MAXIMUM_WAIT_OBJECTS; i += 3)
		if (!(threads[n++] = CreateThread(NULL, STACK, serve_one, words + i, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL)))
			return say("making a thread");
	if (n)
		WaitForMultipleObjects((DWORD)n, threads, FALSE, INFINITE);
	return 1;
}

/* Connects to a pipe, for which it waits while all of its instances are taken. */
static int open_pipe(const char *name)
{
	HANDLE threads[DIRECTIONS], pipe;

	while ((pipe = CreateFileA(name, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, FILE_FLAG_OVERLAPPED, NULL)) == INVALID_HANDLE_VALUE)
		if (GetLastError() != ERROR_PIPE_BUSY || !WaitNamedPipeA(name, BUSY_MS))
			return say("opening the pipe");
	carry(pipe, 0, threads);
	WaitForMultipleObjects(DIRECTIONS, threads, TRUE, INFINITE);
	return 0;
}

/* Sends a word through a pipe, once from each end. */
static int check(void)
{
	static const char name[] = "\\\\.\\pipe\\porthole-check", word[] = "porthole";
	HANDLE server = instance(name, FILE_FLAG_FIRST_PIPE_INSTANCE), ends[2];
	OVERLAPPED o = { .hEvent = CreateEventW(NULL, TRUE, FALSE, NULL) };
	char got[sizeof word];
	DWORD count;
	int i;

	ends[0] = server;
	ends[1] = CreateFileA(name, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, FILE_FLAG_OVERLAPPED, NULL);
	if (server == INVALID_HANDLE_VALUE || ends[1] == INVALID_HANDLE_VALUE)
		return say("connecting to a pipe");
	for (i = 0; i < 2; i++) {
		memset(got, 0, sizeof got);
		if (!finished(ends[i], &o, WriteFile(ends[i], word, sizeof word, NULL, &o), NULL, &count) ||
		    !finished(ends[!i], &o, ReadFile(ends[!i], got, sizeof got, NULL, &o), NULL, &count) || memcmp(got, word, sizeof word))
			return say("sending through a pipe");
	}
	return 0;
}

static void say_unmended(void)
{
	HMODULE dll = LoadLibraryW(L"bcryptprimitives.dll");
	int (*unmended)(char *, int) = dll ? (void *)GetProcAddress(dll, "porthole_unmended") : NULL;
	static char text[4096];
	char *at;

	if (!unmended || !unmended(text, sizeof text))
		return;
	for (at = text; *at; at++)
		if (*at == '\n')
			*at = ';';
	fprintf(stderr, "porthole-pipe: this Wine is not one that can be mended: %s\n", text);
}

int main(int argc, char **argv)
{
	say_unmended();
	if (argc == 2 && !strcmp(argv[1], "--check"))
		return check();
	if (argc >= 4 && !strcmp(argv[1], "--serve"))
		return serve_pairs((const char **)argv + 2, argc - 2);
	if (argc == 3 && !strcmp(argv[1], "--open"))
		return open_pipe(argv[2]);
	if (argc != 3) {
		fprintf(stderr, "usage: porthole-pipe.exe \\\\.\\pipe\\NAME PORT | --serve NAME PATH ... | --open PIPE | --check\n");
		return 2;
	}
	return serve_all(argv[1], (struct target){ .port = (unsigned short)atoi(argv[2]) });
}
