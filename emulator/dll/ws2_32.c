/* ws2_32.dll: Wine's own behind a WSAIoctl that knows what Wine 8.0 does not. Everything else goes on (ws2_32.def). */
#define WINSOCK_API_LINKAGE /* these functions are not imported here but made */
#include <winsock2.h>

#include "builtin.h"

#define UDP_CONNRESET _WSAIOW(IOC_VENDOR, 12)
#define UDP_NETRESET _WSAIOW(IOC_VENDOR, 15)

#define WSAIOCTL_ORDINAL 70

typedef int (WINAPI *ioctl_function)(SOCKET, DWORD, void *, DWORD, void *, DWORD, DWORD *, WSAOVERLAPPED *, LPWSAOVERLAPPED_COMPLETION_ROUTINE);

/* UDP_NETRESET says whether receiving on a UDP socket fails with WSAENETRESET when a packet ran out of hops. It never
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

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
	(void)reserved;
	if (reason != DLL_PROCESS_ATTACH)
		return TRUE;
	DisableThreadLibraryCalls(self);
	return builtin_load(L"ws2_32.dll");
}
