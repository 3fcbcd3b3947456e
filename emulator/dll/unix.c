/*
 * Sockets of the family AF_UNIX for programs of one host: a TCP socket at 127.0.0.1, whose port is in the file that bind makes. Wine 8.0 has
 * no such family, and upstream's kubelet.exe ends when it cannot listen for device plugins.
 *
 * The file has a mark by which mend_link.c tells that it is a socket, as Windows does: a reparse point. Go removes what is left of a socket
 * by that.
 *
 * What is not so: the file can be opened and read, its permissions are not asked, and addresses that AcceptEx tells are those of TCP.
 */
#define WINSOCK_API_LINKAGE
#include <winsock2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "linux.h"
#include "unix.h"

enum { SYS_FSTAT = 5, SYS_FCHMOD = 91 };

#define ACCEPT_ORDINAL 1
#define BIND_ORDINAL 2
#define CLOSESOCKET_ORDINAL 3
#define CONNECT_ORDINAL 4
#define GETPEERNAME_ORDINAL 5
#define GETSOCKNAME_ORDINAL 6
#define SOCKET_ORDINAL 23
#define WSASOCKETW_ORDINAL 95
#define WSASETLASTERROR_ORDINAL 112

#define UNIX_PATH 108 /* afunix.h */

struct unix_address {
	u_short family;
	char path[UNIX_PATH]; /* UTF-8 */
};

/* A socket that was made as one of this family. */
struct unix_socket {
	struct unix_socket *next;
	SOCKET s;
	struct unix_address local, peer;
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

SOCKET WINAPI accept(SOCKET s, struct sockaddr *name, int *size)
{
	SOCKET (WINAPI *wine_accept)(SOCKET, struct sockaddr *, int *) = WINE(void *, ACCEPT_ORDINAL);
	struct unix_address local = {0};
	SOCKET accepted;

	EnterCriticalSection(&lock);
	if (*find(s))
		local = (*find(s))->local;
	LeaveCriticalSection(&lock);
	if (local.family != AF_UNIX)
		return wine_accept(s, name, size);
	accepted = remember(wine_accept(s, NULL, NULL));
	if (accepted != INVALID_SOCKET) {
		EnterCriticalSection(&lock);
		(*find(accepted))->local = local;
		LeaveCriticalSection(&lock);
		if (name && size)
			getpeername(accepted, name, size);
	}
	return accepted;
}

int WINAPI closesocket(SOCKET s)
{
	struct unix_socket **at, *gone;

	EnterCriticalSection(&lock);
	at = find(s);
	if ((gone = *at))
		*at = gone->next;
	LeaveCriticalSection(&lock);
	free(gone);
	return WINE(int (WINAPI *)(SOCKET), CLOSESOCKET_ORDINAL)(s);
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

static struct sockaddr_in loopback(u_short port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

	in.sin_addr.S_un.S_un_b.s_b1 = 127;
	in.sin_addr.S_un.S_un_b.s_b4 = 1;
	return in;
}

/* Marks an open file as that of a socket. */
static BOOL mark_socket(HANDLE file)
{
	int(CDECL * to_fd)(HANDLE, unsigned, int *, unsigned *) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_server_handle_to_fd");
	struct linux_stat s;
	unsigned options;
	BOOL marked;
	int fd;

	if (!to_fd || to_fd(file, 0, &fd, &options))
		return FALSE;
	marked = !linux_call(SYS_FSTAT, fd, (intptr_t)&s, 0, 0, 0) && !linux_call(SYS_FCHMOD, fd, (s.mode & ~S_IFMT_) | S_ISVTX_, 0, 0, 0);
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return marked;
}

/* Binds to a free port, and writes it, in the order of the network, into the file. */
static int bind_file(SOCKET s, const WCHAR *path)
{
	struct sockaddr_in in = loopback(0);
	int size = sizeof in;
	char text[16];
	HANDLE file;
	DWORD written;

	file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return fail(GetLastError() == ERROR_FILE_EXISTS ? WSAEADDRINUSE : GetLastError() == ERROR_ACCESS_DENIED ? WSAEACCES : WSAENETDOWN);
	if (WINE(address_function, BIND_ORDINAL)(s, (struct sockaddr *)&in, sizeof in) ||
	    WINE(name_function, GETSOCKNAME_ORDINAL)(s, (struct sockaddr *)&in, &size)) {
		CloseHandle(file);
		DeleteFileW(path);
		return SOCKET_ERROR;
	}
	size = snprintf(text, sizeof text, "%u\n", in.sin_port);
	WriteFile(file, text, size, &written, NULL);
	if (!mark_socket(file)) {
		CloseHandle(file);
		DeleteFileW(path);
		return fail(WSAENETDOWN);
	}
	CloseHandle(file);
	return 0;
}

BOOL unix_bind(SOCKET s, const struct sockaddr *name, int size, int *result)
{
	struct unix_address local;
	struct unix_socket *u;
	WCHAR path[UNIX_PATH];

	if (!name || size < (int)sizeof local.family || name->sa_family != AF_UNIX)
		return FALSE;
	*result = path_of(name, size, &local, path) ? bind_file(s, path) : fail(WSAEINVAL);
	if (*result)
		return TRUE;
	EnterCriticalSection(&lock);
	if ((u = *find(s)))
		u->local = local;
	LeaveCriticalSection(&lock);
	return TRUE;
}

static int connect_file(SOCKET s, const WCHAR *path)
{
	HANDLE file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
	struct sockaddr_in in;
	char text[16] = "";
	DWORD read = 0;

	if (file == INVALID_HANDLE_VALUE)
		return fail(WSAECONNREFUSED);
	ReadFile(file, text, sizeof text - 1, &read, NULL);
	CloseHandle(file);
	in = loopback((u_short)atoi(text));
	if (!in.sin_port)
		return fail(WSAECONNREFUSED);
	return WINE(address_function, CONNECT_ORDINAL)(s, (struct sockaddr *)&in, sizeof in);
}

BOOL unix_connect(SOCKET s, const struct sockaddr *name, int size, int *result)
{
	struct unix_address peer;
	struct unix_socket *u;
	WCHAR path[UNIX_PATH];

	if (!name || size < (int)sizeof peer.family || name->sa_family != AF_UNIX)
		return FALSE;
	*result = path_of(name, size, &peer, path) ? connect_file(s, path) : fail(WSAEINVAL);
	EnterCriticalSection(&lock);
	if ((u = *find(s)))
		u->peer = peer;
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
