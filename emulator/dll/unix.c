/*
 * Sockets of the family AF_UNIX. Wine 8.0 has no such family, and upstream's kubelet.exe ends when it cannot listen for device plugins.
 *
 * The file of a socket is one of a socket of Linux, so that it works through folders that containers and the host share, and only for who may
 * open it. The program's own socket is one of TCP on the loopback, which only this process connects to: unix_relay.c forwards between both. Who
 * else connects there finds the connection closed.
 *
 * Windows has a reparse point for the file; mend_link.c tells that it is one. Go removes what is left of a socket by that.
 *
 * What is not so: addresses that AcceptEx tells are those of TCP, and what a program has written without closing the socket may be lost if it
 * ends at once.
 */
#define WINSOCK_API_LINKAGE
#include <winsock2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "unix.h"
#include "unix_relay.h"

#define ACCEPT_ORDINAL 1
#define BIND_ORDINAL 2
#define CLOSESOCKET_ORDINAL 3
#define CONNECT_ORDINAL 4
#define GETPEERNAME_ORDINAL 5
#define GETSOCKNAME_ORDINAL 6
#define SETSOCKOPT_ORDINAL 21
#define SHUTDOWN_ORDINAL 22
#define SOCKET_ORDINAL 23
#define WSASOCKETW_ORDINAL 95
#define WSAGETLASTERROR_ORDINAL 111
#define WSASETLASTERROR_ORDINAL 112

#define UNIX_PATH 108 /* afunix.h */
#define UPDATE_ACCEPT_CONTEXT 0x700b /* SO_UPDATE_ACCEPT_CONTEXT, mswsock.h */

struct unix_address {
	u_short family;
	char path[UNIX_PATH]; /* UTF-8 */
};

/* A socket that was made as one of this family. */
struct unix_socket {
	struct unix_socket *next;
	SOCKET s;
	struct unix_address local, peer;
	int listener;	     /* that unix_relay.c serves; 0: it does not listen */
	struct relay *relay; /* of one that is connected */
};

static CRITICAL_SECTION lock;
static struct unix_socket *first;

typedef int (WINAPI *address_function)(SOCKET, const struct sockaddr *, int);
typedef int (WINAPI *name_function)(SOCKET, struct sockaddr *, int *);

#define WINE(type, ordinal) ((type)(void *)builtin_function[ordinal])

static int fail(int error)
{
	WINE(void (WINAPI *)(int), WSASETLASTERROR_ORDINAL)(error);
	return SOCKET_ERROR;
}

void unix_start(void)
{
	InitializeCriticalSection(&lock);
}

/* Finds a socket. The caller has the lock. */
static struct unix_socket **find(SOCKET s)
{
	struct unix_socket **at = &first;

	while (*at && (*at)->s != s)
		at = &(*at)->next;
	return at;
}

static SOCKET remember(SOCKET s)
{
	struct unix_socket *u;

	if (s == INVALID_SOCKET)
		return s;
	if (!(u = calloc(1, sizeof *u))) {
		WINE(int (WINAPI *)(SOCKET), CLOSESOCKET_ORDINAL)(s);
		fail(WSAENOBUFS);
		return INVALID_SOCKET;
	}
	u->s = s;
	u->local.family = u->peer.family = AF_UNIX;
	EnterCriticalSection(&lock);
	u->next = first;
	first = u;
	LeaveCriticalSection(&lock);
	return s;
}

SOCKET WINAPI socket(int family, int type, int protocol)
{
	SOCKET (WINAPI *wine_socket)(int, int, int) = WINE(void *, SOCKET_ORDINAL);

	if (family != AF_UNIX)
		return wine_socket(family, type, protocol);
	if (type != SOCK_STREAM || protocol) {
		fail(type == SOCK_STREAM ? WSAEPROTONOSUPPORT : WSAESOCKTNOSUPPORT);
		return INVALID_SOCKET;
	}
	return remember(wine_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP));
}

SOCKET WINAPI WSASocketW(int family, int type, int protocol, WSAPROTOCOL_INFOW *info, GROUP group, DWORD flags)
{
	SOCKET (WINAPI *wine_socket)(int, int, int, WSAPROTOCOL_INFOW *, GROUP, DWORD) = WINE(void *, WSASOCKETW_ORDINAL);

	if (family != AF_UNIX || info)
		return wine_socket(family, type, protocol, info, group, flags);
	if (type != SOCK_STREAM || protocol) {
		fail(type == SOCK_STREAM ? WSAEPROTONOSUPPORT : WSAESOCKTNOSUPPORT);
		return INVALID_SOCKET;
	}
	return remember(wine_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, group, flags));
}

static struct sockaddr_in loopback(u_short port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

	in.sin_addr.S_un.S_un_b.s_b1 = 127;
	in.sin_addr.S_un.S_un_b.s_b4 = 1;
	return in;
}

/* The connection by which unix_relay.c of this process has come to an accepted socket. NULL: a stranger has. */
static struct relay *relay_of(SOCKET accepted)
{
	struct sockaddr_in from = {0};
	int size = sizeof from;

	if (WINE(name_function, GETPEERNAME_ORDINAL)(accepted, (struct sockaddr *)&from, &size) || from.sin_addr.s_addr != loopback(0).sin_addr.s_addr)
		return NULL;
	return relay_accepted(from.sin_port);
}

static BOOL is_ours(SOCKET s)
{
	BOOL ours;

	EnterCriticalSection(&lock);
	ours = *find(s) != NULL;
	LeaveCriticalSection(&lock);
	return ours;
}

/* Gives a socket that a listener has accepted the listener's address, and its connection, which closesocket ends. */
static void take_connection(SOCKET accepted, SOCKET listener, struct relay *relay)
{
	struct unix_socket *u, *l;

	EnterCriticalSection(&lock);
	l = *find(listener);
	u = *find(accepted);
	if (l && u)
		u->local = l->local;
	if (u && !u->relay) {
		u->relay = relay;
		relay = NULL;
	}
	LeaveCriticalSection(&lock);
	relay_end(relay);
}

SOCKET WINAPI accept(SOCKET s, struct sockaddr *name, int *size)
{
	SOCKET (WINAPI *wine_accept)(SOCKET, struct sockaddr *, int *) = WINE(void *, ACCEPT_ORDINAL);
	struct relay *relay;
	SOCKET accepted;

	if (!is_ours(s))
		return wine_accept(s, name, size);
	do {
		accepted = wine_accept(s, NULL, NULL);
		if (accepted == INVALID_SOCKET)
			return accepted;
		relay = relay_of(accepted);
		if (!relay)
			WINE(int (WINAPI *)(SOCKET), CLOSESOCKET_ORDINAL)(accepted);
	} while (!relay);
	accepted = remember(accepted);
	take_connection(accepted, s, relay);
	if (accepted != INVALID_SOCKET && name && size)
		getpeername(accepted, name, size);
	return accepted;
}

/* What AcceptEx has accepted is told by this option whose it is. A stranger's connection is over then, as one whose other end has closed it. */
int WINAPI setsockopt(SOCKET s, int level, int option, const char *value, int size)
{
	int result = WINE(int (WINAPI *)(SOCKET, int, int, const char *, int), SETSOCKOPT_ORDINAL)(s, level, option, value, size);
	struct relay *relay;
	SOCKET listener;

	if (result && keep_alive(s, level, option, value, size))
		return 0;
	if (result || level != SOL_SOCKET || option != UPDATE_ACCEPT_CONTEXT || !value || size < (int)sizeof listener)
		return result;
	listener = *(const SOCKET *)(const void *)value;
	if (!is_ours(listener))
		return result;
	relay = relay_of(s);
	if (relay)
		take_connection(s, listener, relay);
	else
		WINE(int (WINAPI *)(SOCKET, int), SHUTDOWN_ORDINAL)(s, SD_BOTH);
	return result;
}

int WINAPI closesocket(SOCKET s)
{
	struct unix_socket **at, *gone;
	int result;

	EnterCriticalSection(&lock);
	at = find(s);
	if ((gone = *at))
		*at = gone->next;
	LeaveCriticalSection(&lock);
	if (gone && gone->listener)
		relay_stop(gone->listener);
	result = WINE(int (WINAPI *)(SOCKET), CLOSESOCKET_ORDINAL)(s);
	if (gone)
		relay_end(gone->relay);
	free(gone);
	return result;
}

/* The path of an address, whose text need not end with a zero. FALSE: there is none. */
static BOOL path_of(const struct sockaddr *name, int size, struct unix_address *copy, WCHAR *path)
{
	int length = size - (int)sizeof copy->family;

	memset(copy, 0, sizeof *copy);
	copy->family = AF_UNIX;
	if (length <= 0 || length > UNIX_PATH || !((const struct unix_address *)name)->path[0])
		return FALSE;
	memcpy(copy->path, ((const struct unix_address *)name)->path, length);
	copy->path[UNIX_PATH - 1] = 0;
	return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, copy->path, -1, path, UNIX_PATH) > 0;
}

/* Binds to a free port of the loopback, to which what comes to the file is forwarded. *listener is set to the socket of the file. */
static int bind_file(SOCKET s, const WCHAR *path, int *listener)
{
	struct sockaddr_in in = loopback(0);
	int size = sizeof in, error;

	if (WINE(address_function, BIND_ORDINAL)(s, (struct sockaddr *)&in, sizeof in) ||
	    WINE(name_function, GETSOCKNAME_ORDINAL)(s, (struct sockaddr *)&in, &size))
		return SOCKET_ERROR;
	error = relay_listen(path, listener);
	if (error)
		return fail(error);
	if (relay_serve(*listener, in.sin_port))
		return 0;
	relay_stop(*listener);
	return fail(WSAENOBUFS);
}

BOOL unix_bind(SOCKET s, const struct sockaddr *name, int size, int *result)
{
	struct unix_address local;
	struct unix_socket *u;
	WCHAR path[UNIX_PATH];
	int listener = 0;

	if (!name || size < (int)sizeof local.family || name->sa_family != AF_UNIX)
		return FALSE;
	*result = path_of(name, size, &local, path) ? bind_file(s, path, &listener) : fail(WSAEINVAL);
	if (*result)
		return TRUE;
	EnterCriticalSection(&lock);
	if ((u = *find(s))) {
		u->local = local;
		u->listener = listener;
	}
	LeaveCriticalSection(&lock);
	return TRUE;
}

/* Connects to the socket of the file, and the program's own to what forwards to it. */
static int connect_file(SOCKET s, const WCHAR *path, struct relay **relay)
{
	struct sockaddr_in own = loopback(0), to = loopback(0);
	int size = sizeof own, peer, opened, result, error = relay_dial(path, &peer);

	if (error)
		return fail(error);
	opened = relay_open(&to.sin_port);
	if (opened < 0 || WINE(address_function, BIND_ORDINAL)(s, (struct sockaddr *)&own, sizeof own) ||
	    WINE(name_function, GETSOCKNAME_ORDINAL)(s, (struct sockaddr *)&own, &size)) {
		relay_drop(opened);
		relay_drop(peer);
		return fail(WSAENOBUFS);
	}
	result = WINE(address_function, CONNECT_ORDINAL)(s, (struct sockaddr *)&to, sizeof to);
	error = result ? WINE(int (WINAPI *)(void), WSAGETLASTERROR_ORDINAL)() : 0;
	*relay = relay_join(opened, own.sin_port, peer);
	if (!*relay)
		return fail(WSAECONNREFUSED);
	return result ? fail(error) : 0;
}

BOOL unix_connect(SOCKET s, const struct sockaddr *name, int size, int *result)
{
	struct unix_address peer;
	struct relay *relay = NULL;
	struct unix_socket *u;
	WCHAR path[UNIX_PATH];

	if (!name || size < (int)sizeof peer.family || name->sa_family != AF_UNIX)
		return FALSE;
	*result = path_of(name, size, &peer, path) ? connect_file(s, path, &relay) : fail(WSAEINVAL);
	EnterCriticalSection(&lock);
	if ((u = *find(s))) {
		u->peer = peer;
		if (relay)
			u->relay = relay;
	}
	LeaveCriticalSection(&lock);
	return TRUE;
}

int WINAPI connect(SOCKET s, const struct sockaddr *name, int size)
{
	int result;

	return unix_connect(s, name, size, &result) ? result : WINE(address_function, CONNECT_ORDINAL)(s, name, size);
}

BOOL unix_name(SOCKET s, BOOL peer, struct sockaddr *name, int *size, int *result)
{
	struct unix_address address;
	struct unix_socket *u;

	EnterCriticalSection(&lock);
	if ((u = *find(s)))
		address = peer ? u->peer : u->local;
	LeaveCriticalSection(&lock);
	if (!u)
		return FALSE;
	if (!name || !size || *size < (int)sizeof address) {
		*result = fail(WSAEFAULT);
		return TRUE;
	}
	memcpy(name, &address, sizeof address);
	*size = sizeof address;
	*result = 0;
	return TRUE;
}

int WINAPI getpeername(SOCKET s, struct sockaddr *name, int *size)
{
	struct sockaddr_in in;
	int in_size = sizeof in, result;

	if (unix_name(s, TRUE, name, size, &result)) /* an error, if nobody is there */
		return result || WINE(name_function, GETPEERNAME_ORDINAL)(s, (struct sockaddr *)&in, &in_size) ? SOCKET_ERROR : 0;
	return WINE(name_function, GETPEERNAME_ORDINAL)(s, name, size);
}
