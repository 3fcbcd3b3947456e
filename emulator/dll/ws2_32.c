/* ws2_32.dll: Wine's own behind a WSAIoctl that knows what Wine 8.0 does not, and a bind that does for UDP what Windows
 * does. bind and listen have sockets marked for the host's firewall; sockets of AF_UNIX are in unix.c. Everything else goes on (ws2_32.def). */
#define WINSOCK_API_LINKAGE /* these functions are not imported here but made */
#include <winsock2.h>

#include "builtin.h"
#include "linux.h"
#include "mark.h"
#include "unix.h"

#define UDP_CONNRESET _WSAIOW(IOC_VENDOR, 12)
#define UDP_NETRESET _WSAIOW(IOC_VENDOR, 15)

#define BIND_ORDINAL 2
#define GETSOCKNAME_ORDINAL 6
#define GETSOCKOPT_ORDINAL 7
#define LISTEN_ORDINAL 13
#define WSAIOCTL_ORDINAL 70
#define WSASETLASTERROR_ORDINAL 112

typedef int (WINAPI *name_function)(SOCKET, struct sockaddr *, int *);
typedef int (WINAPI *bind_function)(SOCKET, const struct sockaddr *, int);
typedef int (WINAPI *listen_function)(SOCKET, int);
typedef int (WINAPI *option_function)(SOCKET, int, int, char *, int *);
typedef void (WINAPI *error_function)(int);
typedef LONG (CDECL *fd_function)(HANDLE, unsigned int, int *, unsigned int *);
typedef int (WINAPI *ioctl_function)(SOCKET, DWORD, void *, DWORD, void *, DWORD, DWORD *, WSAOVERLAPPED *, LPWSAOVERLAPPED_COMPLETION_ROUTINE);

/* UDP_NETRESET reports whether receiving on a UDP socket fails with WSAENETRESET when a packet ran out of hops. It never
 * does here, so FALSE is done already and TRUE promises nothing that a network must keep. Go asks for FALSE on each of
 * its UDP sockets and gives up when that is refused (src/net/fd_windows.go). */
int WINAPI WSAIoctl(SOCKET s, DWORD code, void *in, DWORD in_size, void *out, DWORD out_size, DWORD *returned, WSAOVERLAPPED *overlapped, LPWSAOVERLAPPED_COMPLETION_ROUTINE completion)
{
	ioctl_function wine_ioctl = (ioctl_function)(void *)builtin_function[WSAIOCTL_ORDINAL];

	/* Wine answers UDP_CONNRESET with success and does nothing. Observed with 8.0. */
	if (code == UDP_NETRESET)
		code = UDP_CONNRESET;
	return wine_ioctl(s, code, in, in_size, out, out_size, returned, overlapped, completion);
}

/* Errors of Linux (asm-generic/errno-base.h, errno.h). A sockaddr_in is the same on both sides. */
#define LINUX_EACCES 13
#define LINUX_EADDRINUSE 98
#define LINUX_EADDRNOTAVAIL 99

/* linux_socket gives the socket's descriptor, which the caller closes; -1 if there is none. */
static int linux_socket(SOCKET s)
{
	fd_function to_fd = (fd_function)(void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_server_handle_to_fd");
	int fd;

	if (!to_fd || to_fd((HANDLE)s, FILE_READ_DATA, &fd, NULL))
		return -1;
	return fd;
}

BOOL keep_alive(SOCKET s, int level, int option, const char *value, int size)
{
	/* Of Windows (ws2ipdef.h, build 16299) and of Linux (include/uapi/linux/tcp.h). All are seconds, but the last is a count. */
	static const int options[][2] = { { 3, 4 }, { 17, 5 }, { 16, 6 } }; /* TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT */
	BOOL done = FALSE;
	size_t i;
	int fd;

	if (level != IPPROTO_TCP || !value || size < (int)sizeof(int))
		return FALSE;
	for (i = 0; i < sizeof options / sizeof *options; i++) {
		if (option != options[i][0] || (fd = linux_socket(s)) < 0)
			continue;
		done = !linux_call(SYS_SETSOCKOPT, fd, IPPROTO_TCP, options[i][1], (intptr_t)value, sizeof(int));
		linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	}
	return done;
}

/* bound_to_interface: Wine binds such a socket to the interface that has the address. */
static BOOL bound_to_interface(SOCKET s, const struct sockaddr *name, int size)
{
	option_function wine_getsockopt = (option_function)(void *)builtin_function[GETSOCKOPT_ORDINAL];
	const struct sockaddr_in *in = (const struct sockaddr_in *)name;
	int type = 0, type_size = sizeof type;

	return name && size >= (int)sizeof *in && in->sin_family == AF_INET && in->sin_addr.s_addr != INADDR_ANY
		&& in->sin_addr.S_un.S_un_b.s_b1 != 127
		&& !wine_getsockopt(s, SOL_SOCKET, SO_TYPE, (char *)&type, &type_size) && type == SOCK_DGRAM;
}

static int fail(int error)
{
	((error_function)(void *)builtin_function[WSASETLASTERROR_ORDINAL])(error);
	return SOCKET_ERROR;
}

static int linux_bind(int fd, const struct sockaddr_in *name)
{
	static const struct sockaddr_in none; /* AF_UNSPEC */

	linux_call(SYS_CONNECT, fd, (intptr_t)&none, sizeof none, 0, 0);
	switch (-linux_call(SYS_BIND, fd, (intptr_t)name, sizeof *name, 0, 0)) {
	case 0:
		return 0;
	case LINUX_EACCES:
		return fail(WSAEACCES);
	case LINUX_EADDRINUSE:
		return fail(WSAEADDRINUSE);
	case LINUX_EADDRNOTAVAIL:
		return fail(WSAEADDRNOTAVAIL);
	default:
		return fail(WSAENOBUFS);
	}
}

#define LINUX_SOL_SOCKET 1
#define LINUX_SO_TYPE 3
#define LINUX_SOCK_STREAM 1

/* marked marks a socket for the host's firewall before packets can come to it: TCP sockets when they begin to listen, as those that only connect
 * need no mark, and others when they are bound. */
static void marked(SOCKET s, BOOL listens)
{
	int type = 0, size = sizeof type, fd = linux_socket(s);

	if (fd < 0)
		return;
	if (!linux_call(SYS_GETSOCKOPT, fd, LINUX_SOL_SOCKET, LINUX_SO_TYPE, (intptr_t)&type, (intptr_t)&size) && (type == LINUX_SOCK_STREAM) == listens)
		mark_socket(fd);
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
}

/* Wine 8.0 (server/sock.c, bind_to_interface) binds a UDP socket that asks for one IPv4 address of the host to the
 * interface of that address instead, and to any address, so that it receives broadcasts. Then nothing reaches it that
 * comes in by another interface, its answers have the address of the interface they leave by, and a port can be
 * had once per interface. Windows gives the socket the address. So here Wine binds it to a port of Linux' choice; that
 * binding ends when the socket is disconnected, and Linux makes the one that was asked for. The price: no broadcasts.
 * After a failure the socket counts as bound and can only be closed. */
int WINAPI bind(SOCKET s, const struct sockaddr *name, int size)
{
	bind_function wine_bind = (bind_function)(void *)builtin_function[BIND_ORDINAL];
	struct sockaddr_in any_port;
	int fd, result;

	if (unix_bind(s, name, size, &result))
		return result;
	marked(s, FALSE);
	if (!bound_to_interface(s, name, size))
		return wine_bind(s, name, size);
	any_port = *(const struct sockaddr_in *)name;
	any_port.sin_port = 0;
	result = wine_bind(s, (const struct sockaddr *)&any_port, sizeof any_port);
	if (result)
		return result;
	fd = linux_socket(s);
	if (fd < 0)
		return fail(WSAENOBUFS);
	result = linux_bind(fd, (const struct sockaddr_in *)name);
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return result;
}

int WINAPI listen(SOCKET s, int backlog)
{
	listen_function wine_listen = (listen_function)(void *)builtin_function[LISTEN_ORDINAL];

	marked(s, TRUE);
	return wine_listen(s, backlog);
}

/* Wine remembers the port of its own binding. */
int WINAPI getsockname(SOCKET s, struct sockaddr *name, int *size)
{
	name_function wine_getsockname = (name_function)(void *)builtin_function[GETSOCKNAME_ORDINAL];
	struct sockaddr_in is;
	unsigned int is_size = sizeof is;
	int fd, result;

	if (unix_name(s, FALSE, name, size, &result))
		return result;
	result = wine_getsockname(s, name, size);
	if (result || !bound_to_interface(s, name, *size))
		return result;
	fd = linux_socket(s);
	if (fd < 0)
		return fail(WSAENOBUFS);
	if (!linux_call(SYS_GETSOCKNAME, fd, (intptr_t)&is, (intptr_t)&is_size, 0, 0) && is.sin_family == AF_INET)
		((struct sockaddr_in *)name)->sin_port = is.sin_port;
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return result;
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
	(void)reserved;
	if (reason != DLL_PROCESS_ATTACH)
		return TRUE;
	DisableThreadLibraryCalls(self);
	unix_start();
	LoadLibraryW(L"bcryptprimitives.dll"); /* for programs that are not Go's: mend.h */
	return builtin_load(L"ws2_32.dll");
}
