/* ws2_32.dll: Wine's own, which waits in system32\builtin, behind a WSAIoctl that knows what Wine 8.0 does not. By name a
 * process has one ws2_32.dll, so this one loads the other by path and leads its functions there (ws2_32.def). */
#define WINSOCK_API_LINKAGE /* these functions are not imported here but made */
#include <winsock2.h>

#include <windows.h>

#define UDP_CONNRESET _WSAIOW(IOC_VENDOR, 12)
#define UDP_NETRESET _WSAIOW(IOC_VENDOR, 15)
#define LAST_ORDINAL 500

/* Addresses of Wine's functions, by ordinal. Filled once, before any program runs. */
FARPROC wine_function[LAST_ORDINAL + 1] __attribute__((used));

/* thunk_N goes on to function N with everything as the caller left it. */
__asm__(".altmacro\n"
	".macro thunk n\n"
	"	.globl thunk_\\n\n"
	"thunk_\\n:\n"
	"	jmp *wine_function+8*\\n(%rip)\n"
	".endm\n"
	".text\n"
	".set ordinal, 0\n"
	".rept 501\n"
	"	thunk %ordinal\n"
	"	.set ordinal, ordinal+1\n"
	".endr\n"
	".noaltmacro\n");

#define WSAIOCTL_ORDINAL 70

typedef int (WINAPI *ioctl_function)(SOCKET, DWORD, void *, DWORD, void *, DWORD, DWORD *, WSAOVERLAPPED *, LPWSAOVERLAPPED_COMPLETION_ROUTINE);

/* UDP_NETRESET says whether receiving on a UDP socket fails with WSAENETRESET when a packet ran out of hops. It never
 * does here, so FALSE is done already and TRUE promises nothing that a network must keep. Go asks for FALSE on each of
 * its UDP sockets and gives up when that is refused (src/net/fd_windows.go). */
int WINAPI WSAIoctl(SOCKET s, DWORD code, void *in, DWORD in_size, void *out, DWORD out_size, DWORD *returned, WSAOVERLAPPED *overlapped, LPWSAOVERLAPPED_COMPLETION_ROUTINE completion)
{
	ioctl_function wine_ioctl = (ioctl_function)(void *)wine_function[WSAIOCTL_ORDINAL];

	/* Wine answers UDP_CONNRESET with success and checks what it must, the socket first. Observed with 8.0. */
	if (code == UDP_NETRESET)
		code = UDP_CONNRESET;
	return wine_ioctl(s, code, in, in_size, out, out_size, returned, overlapped, completion);
}

static BOOL find_functions(void)
{
	static const WCHAR name[] = L"\\builtin\\ws2_32.dll";
	WCHAR path[MAX_PATH + sizeof name / sizeof *name];
	UINT length = GetSystemDirectoryW(path, MAX_PATH);
	HMODULE wine;
	UINT_PTR i;

	if (!length || length >= MAX_PATH)
		return FALSE;
	lstrcpyW(path + length, name);
	wine = LoadLibraryW(path);
	if (!wine)
		return FALSE;
	for (i = 1; i <= LAST_ORDINAL; i++)
		wine_function[i] = GetProcAddress(wine, (const char *)i);
	return wine_function[WSAIOCTL_ORDINAL] != NULL;
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
	(void)reserved;
	if (reason != DLL_PROCESS_ATTACH)
		return TRUE;
	DisableThreadLibraryCalls(self);
	return find_functions();
}
