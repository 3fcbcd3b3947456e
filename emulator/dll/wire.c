/* Carries one call to hnsd and back. Each thread has its own connection, so that a call that hangs holds up nobody
 * else. No state but that connection; no decision is made here.
 *
 * The connections are sockets of Linux, asked for by its own calls and unknown to Wine: each call on one of Wine's sockets
 * asks wineserver several times, which serves all threads of all programs one after another (Wine 8.0). */
#include "wire.h"

#include "linux.h"

#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 1000

/* Flags and errors of Linux (include/uapi). */
enum { LINUX_EAGAIN = 11, LINUX_EINPROGRESS = 115 };
enum { LINUX_AF_INET = 2, LINUX_SOCK_STREAM = 1, LINUX_SOCK_NONBLOCK = 04000, LINUX_SOCK_CLOEXEC = 02000000 };
enum { LINUX_MSG_PEEK = 2, LINUX_MSG_DONTWAIT = 0x40, LINUX_MSG_NOSIGNAL = 0x4000 };
enum { LINUX_SOL_SOCKET = 1, LINUX_SO_ERROR = 4, LINUX_IPPROTO_TCP = 6, LINUX_TCP_NODELAY = 1 };
enum { LINUX_F_SETFL = 4, LINUX_SHUT_RDWR = 2, LINUX_POLLOUT = 4 };

struct linux_address {
	uint16_t family, port; /* the port in network order */
	uint8_t addr[4], zero[8];
};

struct linux_poll {
	int fd;
	int16_t events, happened;
};

/* The thread's connection is kept in a slot as descriptor + 1, so that an empty slot is no connection. */
static DWORD slot = TLS_OUT_OF_INDEXES;

static int kept_connection(void)
{
	return (int)(INT_PTR)TlsGetValue(slot) - 1;
}

static void keep_connection(int fd)
{
	TlsSetValue(slot, (LPVOID)(INT_PTR)(fd + 1));
}

void wire_close(int fd)
{
	if (fd != NO_WIRE)
		linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
}

void wire_shutdown(int fd)
{
	if (fd != NO_WIRE)
		linux_call(SYS_SHUTDOWN, fd, LINUX_SHUT_RDWR, 0, 0, 0);
}

static void drop_connection(void)
{
	wire_close(kept_connection());
	keep_connection(NO_WIRE);
}

#define PIECE (1u << 20) /* at most, in one call */

int wire_send_bytes(int fd, const char *data, size_t size)
{
	while (size > 0) {
		int n = linux_again(SYS_SENDTO, fd, (intptr_t)data, size > PIECE ? PIECE : size, LINUX_MSG_NOSIGNAL, 0);
		if (n <= 0)
			return -1;
		data += n;
		size -= n;
	}
	return 0;
}

int wire_receive_bytes(int fd, char *data, size_t size)
{
	while (size > 0) {
		int n = linux_again(SYS_RECVFROM, fd, (intptr_t)data, size > PIECE ? PIECE : size, 0, 0);
		if (n <= 0)
			return -1;
		data += n;
		size -= n;
	}
	return 0;
}

/* A DLL that speaks to another program than hnsd says so when it is built. */
#ifndef WIRE_PORT
#define WIRE_PORT HNSD_PORT
#define WIRE_VARIABLE "HNSD_ADDR"
#endif

/* The address of a service: the variable as a.b.c.d:port, else 127.0.0.1 and the port. */
static void server_address(struct linux_address *to, uint16_t port, const char *variable)
{
	char text[64], *p = text;
	unsigned long part[5] = { 127, 0, 0, 1, port };
	DWORD n = GetEnvironmentVariableA(variable, text, sizeof text);
	int i;

	for (i = 0; i < 5 && n > 0 && n < sizeof text; i++) {
		part[i] = strtoul(p, &p, 10);
		if (*p++ == 0)
			break;
	}
	memset(to, 0, sizeof *to);
	to->family = LINUX_AF_INET;
	to->port = (uint16_t)(part[4] << 8 | (part[4] >> 8 & 0xff));
	for (i = 0; i < 4; i++)
		to->addr[i] = (uint8_t)part[i];
}

/* Connects a socket that does not block, and lets it block from then on. Not 0: nobody listens. */
static int connect_within(int fd, const struct linux_address *to, int limit_ms)
{
	struct linux_poll waiting = { fd, LINUX_POLLOUT, 0 };
	int result = linux_again(SYS_CONNECT, fd, (intptr_t)to, sizeof *to, 0, 0), error = 0, size = sizeof error;

	if (result == -LINUX_EINPROGRESS) {
		if (linux_again(SYS_POLL, (intptr_t)&waiting, 1, limit_ms, 0, 0) != 1)
			return -1;
		result = linux_call(SYS_GETSOCKOPT, fd, LINUX_SOL_SOCKET, LINUX_SO_ERROR, (intptr_t)&error, (intptr_t)&size);
	}
	if (result != 0 || error != 0)
		return -1;
	return linux_call(SYS_FCNTL, fd, LINUX_F_SETFL, 0, 0, 0);
}

static char *put_u32(char *p, uint32_t v)
{
	memcpy(p, &v, 4);
	return p + 4;
}

static char *put_text(char *p, const WCHAR *text, size_t size)
{
	p = put_u32(p, (uint32_t)size);
	if (size)
		memcpy(p, text, size);
	return p + size;
}

int wire_send(int fd, const struct call *c)
{
	static const GUID none;
	size_t size[3], total = 4 + 8 + 16;
	char *frame, *p;
	int i, result;

	for (i = 0; i < 3; i++) {
		size[i] = c->text[i] ? lstrlenW(c->text[i]) * sizeof(WCHAR) : 0;
		total += 4 + size[i];
	}
	if (total > MAX_FRAME)
		return -1;
	frame = malloc(4 + total);
	if (!frame)
		return -1;
	p = put_u32(frame, (uint32_t)total);
	p = put_u32(p, c->op);
	memcpy(p, &c->handle, 8);
	memcpy(p + 8, c->guid ? c->guid : &none, 16);
	p += 24;
	for (i = 0; i < 3; i++)
		p = put_text(p, c->text[i], size[i]);
	result = wire_send_bytes(fd, frame, 4 + total);
	free(frame);
	return result;
}

static int say_hello(int fd)
{
	WCHAR path[MAX_PATH], *name;
	struct call hello = { OP_HELLO, GetCurrentProcessId(), NULL, { NULL, NULL, NULL }, { NULL, NULL } };

	if (!GetModuleFileNameW(NULL, path, MAX_PATH))
		path[0] = 0;
	path[MAX_PATH - 1] = 0;
	name = wcsrchr(path, L'\\');
	hello.text[0] = name ? name + 1 : path;
	return wire_send(fd, &hello);
}

int wire_open(void)
{
	return wire_open_at(WIRE_PORT, WIRE_VARIABLE);
}

int wire_open_at(uint16_t port, const char *variable)
{
	struct linux_address to;
	int on = 1, fd = linux_call(SYS_SOCKET, LINUX_AF_INET, LINUX_SOCK_STREAM | LINUX_SOCK_NONBLOCK | LINUX_SOCK_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return NO_WIRE;
	server_address(&to, port, variable);
	if (connect_within(fd, &to, CONNECT_MS) != 0) {
		wire_close(fd);
		return NO_WIRE;
	}
	linux_call(SYS_SETSOCKOPT, fd, LINUX_IPPROTO_TCP, LINUX_TCP_NODELAY, (intptr_t)&on, sizeof on);
	if (say_hello(fd) != 0) {
		wire_close(fd);
		return NO_WIRE;
	}
	return fd;
}

/* Copies one string of the answer into memory of the caller's kind. *p advances; nothing is read past end. */
static int take_text(const char **p, const char *end, WCHAR **out)
{
	uint32_t size;

	if (end - *p < 4)
		return -1;
	memcpy(&size, *p, 4);
	*p += 4;
	*out = NULL;
	if (size == NULL_TEXT)
		return 0;
	if ((size_t)(end - *p) < size)
		return -1;
	*out = wire_alloc(size + sizeof(WCHAR));
	if (!*out)
		return -1;
	memcpy(*out, *p, size);
	memset((char *)*out + size, 0, sizeof(WCHAR));
	*p += size;
	return 0;
}

int wire_receive(int fd, struct call *c, HRESULT *result)
{
	uint32_t total;
	char *frame;
	const char *p, *end;
	int failed;

	if (wire_receive_bytes(fd, (char *)&total, 4) != 0 || total < 4 + 8 + 8 || total > MAX_FRAME)
		return -1;
	frame = malloc(total);
	if (!frame)
		return -1;
	failed = wire_receive_bytes(fd, frame, total);
	if (!failed) {
		memcpy(result, frame, 4);
		memcpy(&c->handle, frame + 4, 8);
		p = frame + 12;
		end = frame + total;
		failed = take_text(&p, end, &c->out[0]) || take_text(&p, end, &c->out[1]);
	}
	free(frame);
	return failed;
}

/* A connection that was open before may be dead (hnsd was restarted): what the peer closed while we were idle is
 * noticed before the call is sent, so that no call is ever sent twice. */
static int is_alive(int fd)
{
	char byte;

	return linux_again(SYS_RECVFROM, fd, (intptr_t)&byte, 1, LINUX_MSG_PEEK | LINUX_MSG_DONTWAIT, 0) == -LINUX_EAGAIN;
}

HRESULT wire_call(struct call *c)
{
	HRESULT result = RPC_CALL_FAILED;
	int fd = kept_connection();

	c->out[0] = c->out[1] = NULL;
	if (fd != NO_WIRE && !is_alive(fd)) {
		drop_connection();
		fd = NO_WIRE;
	}
	if (fd == NO_WIRE) {
		fd = wire_open();
		keep_connection(fd);
	}
	if (fd == NO_WIRE)
		return RPC_SERVER_UNAVAILABLE;
	if (wire_send(fd, c) == 0 && wire_receive(fd, c, &result) == 0)
		return result;
	drop_connection();
	wire_free(c->out[0]);
	wire_free(c->out[1]);
	c->out[0] = c->out[1] = NULL;
	return RPC_CALL_FAILED;
}

#ifndef WIRE_WITHOUT_MAIN /* a DLL with a DllMain of its own uses no wire_call */
BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, LPVOID reserved)
{
	(void)self;
	(void)reserved;
	if (reason == DLL_PROCESS_ATTACH)
		slot = TlsAlloc();
	else if (reason == DLL_THREAD_DETACH)
		drop_connection();
	return reason != DLL_PROCESS_ATTACH || slot != TLS_OUT_OF_INDEXES;
}
#endif
