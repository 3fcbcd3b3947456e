/* Carries one call to hnsd and back. Each thread has its own connection, so that a call that hangs holds up nobody
 * else. No state but that connection; no decision is made here. */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP_HELLO 1000
#define DEFAULT_PORT 10090
#define CONNECT_MS 1000
#define MAX_FRAME (64u << 20)

#define RPC_SERVER_UNAVAILABLE ((HRESULT)0x800706baL) /* nobody listens */
#define RPC_CALL_FAILED ((HRESULT)0x800706beL)        /* the peer went away in the middle */

/* The thread's connection is kept in a slot as socket + 1, so that an empty slot is no connection. */
static DWORD slot = TLS_OUT_OF_INDEXES;
static LONG started;

static SOCKET kept_connection(void)
{
	return (SOCKET)TlsGetValue(slot) - 1;
}

static void keep_connection(SOCKET s)
{
	TlsSetValue(slot, (LPVOID)(s + 1));
}

static void drop_connection(void)
{
	SOCKET s = kept_connection();

	if (s != INVALID_SOCKET)
		closesocket(s);
	keep_connection(INVALID_SOCKET);
}

static void start_winsock(void)
{
	WSADATA data;

	if (InterlockedCompareExchange(&started, 1, 0) == 0)
		WSAStartup(MAKEWORD(2, 2), &data);
}

static int send_all(SOCKET s, const char *data, size_t size)
{
	while (size > 0) {
		int n = send(s, data, size > (1u << 20) ? (1 << 20) : (int)size, 0);
		if (n <= 0)
			return -1;
		data += n;
		size -= n;
	}
	return 0;
}

static int recv_all(SOCKET s, char *data, size_t size)
{
	while (size > 0) {
		int n = recv(s, data, size > (1u << 20) ? (1 << 20) : (int)size, 0);
		if (n <= 0)
			return -1;
		data += n;
		size -= n;
	}
	return 0;
}

/* The address of hnsd: HNSD_ADDR as a.b.c.d:port, else 127.0.0.1 and the default port. */
static void server_address(struct sockaddr_in *a)
{
	char text[64];
	char *colon;
	DWORD n = GetEnvironmentVariableA("HNSD_ADDR", text, sizeof text);

	memset(a, 0, sizeof *a);
	a->sin_family = AF_INET;
	a->sin_port = htons(DEFAULT_PORT);
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (n == 0 || n >= sizeof text)
		return;
	colon = strrchr(text, ':');
	if (colon) {
		*colon = 0;
		a->sin_port = htons((u_short)atoi(colon + 1));
	}
	if (inet_addr(text) != INADDR_NONE)
		a->sin_addr.s_addr = inet_addr(text);
}

static int connect_within(SOCKET s, const struct sockaddr_in *a)
{
	u_long on = 1, off = 0;
	fd_set writable, failed;
	struct timeval limit = { CONNECT_MS / 1000, (CONNECT_MS % 1000) * 1000 };

	ioctlsocket(s, FIONBIO, &on);
	if (connect(s, (const struct sockaddr *)a, sizeof *a) != 0) {
		if (WSAGetLastError() != WSAEWOULDBLOCK)
			return -1;
		FD_ZERO(&writable);
		FD_ZERO(&failed);
		FD_SET(s, &writable);
		FD_SET(s, &failed);
		if (select(0, NULL, &writable, &failed, &limit) <= 0 || FD_ISSET(s, &failed))
			return -1;
	}
	ioctlsocket(s, FIONBIO, &off);
	return 0;
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

int wire_send(SOCKET s, const struct call *c)
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
	result = send_all(s, frame, 4 + total);
	free(frame);
	return result;
}

static int say_hello(SOCKET s)
{
	WCHAR path[MAX_PATH], *name;
	struct call hello = { OP_HELLO, GetCurrentProcessId(), NULL, { NULL, NULL, NULL }, { NULL, NULL } };

	if (!GetModuleFileNameW(NULL, path, MAX_PATH))
		path[0] = 0;
	path[MAX_PATH - 1] = 0;
	name = wcsrchr(path, L'\\');
	hello.text[0] = name ? name + 1 : path;
	return wire_send(s, &hello);
}

SOCKET wire_open(void)
{
	struct sockaddr_in a;
	BOOL on = TRUE;
	SOCKET s;

	start_winsock();
	server_address(&a);
	s = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	if (s == INVALID_SOCKET)
		return s;
	if (connect_within(s, &a) != 0) {
		closesocket(s);
		return INVALID_SOCKET;
	}
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (const char *)&on, sizeof on);
	if (say_hello(s) != 0) {
		closesocket(s);
		return INVALID_SOCKET;
	}
	return s;
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
	if (size == 0xffffffffu)
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

int wire_receive(SOCKET s, struct call *c, HRESULT *result)
{
	uint32_t total;
	char *frame;
	const char *p, *end;
	int failed;

	if (recv_all(s, (char *)&total, 4) != 0 || total < 4 + 8 + 8 || total > MAX_FRAME)
		return -1;
	frame = malloc(total);
	if (!frame)
		return -1;
	failed = recv_all(s, frame, total);
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
static int is_alive(SOCKET s)
{
	fd_set readable;
	struct timeval now = { 0, 0 };

	FD_ZERO(&readable);
	FD_SET(s, &readable);
	return select(0, &readable, NULL, NULL, &now) == 0;
}

HRESULT wire_call(struct call *c)
{
	HRESULT result = RPC_CALL_FAILED;
	SOCKET s = kept_connection();

	c->out[0] = c->out[1] = NULL;
	if (s != INVALID_SOCKET && !is_alive(s)) {
		drop_connection();
		s = INVALID_SOCKET;
	}
	if (s == INVALID_SOCKET) {
		s = wire_open();
		keep_connection(s);
	}
	if (s == INVALID_SOCKET)
		return RPC_SERVER_UNAVAILABLE;
	if (wire_send(s, c) == 0 && wire_receive(s, c, &result) == 0)
		return result;
	drop_connection();
	wire_free(c->out[0]);
	wire_free(c->out[1]);
	c->out[0] = c->out[1] = NULL;
	return RPC_CALL_FAILED;
}

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
