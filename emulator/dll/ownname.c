/* The name of the host, and the addresses that its name has. Windows keeps the name in the registry ("NV Hostname": that of the next
 * boot). Wine 8.0 asks Linux, whose name all emulated hosts of a machine share, at each boot; wineboot asks for it here and sets
 * what GetComputerNameEx reads. A container has no such value: its Linux has a name of its own. */
#define WINSOCK_API_LINKAGE
#include <winsock2.h>
#include <ws2tcpip.h>

#include <stdio.h>
#include <string.h>

#include "builtin.h"

#define GETADDRINFOW_ORDINAL 30
#define GETHOSTNAMEW_ORDINAL 31
#define GETHOSTBYNAME_ORDINAL 52
#define GETHOSTNAME_ORDINAL 57
#define WSASETLASTERROR_ORDINAL 112
#define GETADDRINFO_ORDINAL 128

#define LONGEST 256 /* DNS names end at 255 bytes, RFC 1035 */

#define WINE(type, ordinal) ((type)(void *)builtin_function[ordinal])

typedef struct hostent *(WINAPI *byname_function)(const char *);
typedef int (WINAPI *hostname_function)(char *, int);
typedef int (WINAPI *hostnamew_function)(WCHAR *, int);
typedef int (WINAPI *addrinfo_function)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
typedef int (WINAPI *addrinfow_function)(const WCHAR *, const WCHAR *, const ADDRINFOW *, ADDRINFOW **);
typedef LSTATUS (WINAPI *value_function)(HKEY, const WCHAR *, const WCHAR *, DWORD, DWORD *, void *, DWORD *);

/* own_name returns the name that the registry gives the host, "" if it gives none. Not from advapi32, whose libraries use sockets. */
static const WCHAR *own_name(void)
{
	static WCHAR name[LONGEST];
	static LONG known;
	WCHAR found[LONGEST];
	DWORD size = sizeof found;
	value_function value;

	if (!known) { /* every thread finds the same */
		value = (value_function)(void *)GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), "RegGetValueW");
		if (value && !value(HKEY_LOCAL_MACHINE, L"System\\CurrentControlSet\\Services\\Tcpip\\Parameters", L"NV Hostname", RRF_RT_REG_SZ, NULL, found, &size))
			lstrcpyW(name, found);
		InterlockedExchange(&known, 1);
	}
	return name;
}

static BOOL is_own(const WCHAR *name)
{
	return *own_name() && !lstrcmpiW(name, own_name());
}

static BOOL is_own_text(const char *name)
{
	WCHAR wide[LONGEST];

	return name && MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, LONGEST) && is_own(wide);
}

/* own_text returns the name in UTF-8. */
static const char *own_text(void)
{
	static char text[LONGEST];

	WideCharToMultiByte(CP_UTF8, 0, own_name(), -1, text, sizeof text, NULL, NULL); /* every thread writes the same */
	return text;
}

static int fail(int error)
{
	WINE(void (WINAPI *)(int), WSASETLASTERROR_ORDINAL)(error);
	return SOCKET_ERROR;
}

int WINAPI gethostname(char *name, int size)
{
	if (!*own_name())
		return WINE(hostname_function, GETHOSTNAME_ORDINAL)(name, size);
	if (!name || size <= lstrlenA(own_text()))
		return fail(WSAEFAULT);
	lstrcpyA(name, own_text());
	return 0;
}

int WINAPI GetHostNameW(WCHAR *name, int size)
{
	if (!*own_name())
		return WINE(hostnamew_function, GETHOSTNAMEW_ORDINAL)(name, size);
	if (!name || size <= lstrlenW(own_name()))
		return fail(WSAEFAULT);
	lstrcpyW(name, own_name());
	return 0;
}

/* Wine knows the host's addresses by the name that Linux gives it. */
static struct hostent *own_addresses(void)
{
	char linux_name[LONGEST];

	if (WINE(hostname_function, GETHOSTNAME_ORDINAL)(linux_name, sizeof linux_name))
		return NULL;
	return WINE(byname_function, GETHOSTBYNAME_ORDINAL)(linux_name);
}

struct hostent *WINAPI gethostbyname(const char *name)
{
	struct hostent *found;

	if (!*own_name() || (name && *name && !is_own_text(name)))
		return WINE(byname_function, GETHOSTBYNAME_ORDINAL)(name);
	found = own_addresses();
	if (found)
		found->h_name = (char *)own_text();
	return found;
}

/* own_address writes the host's first address as text. A host whose name has no address of the family gets WSANO_DATA. */
static int own_address(int family, char text[INET_ADDRSTRLEN])
{
	struct hostent *found = family == AF_INET6 ? NULL : own_addresses();
	const BYTE *part;

	if (!found || found->h_addrtype != AF_INET || !*found->h_addr_list)
		return WSANO_DATA;
	part = (const BYTE *)*found->h_addr_list;
	_snprintf(text, INET_ADDRSTRLEN, "%u.%u.%u.%u", part[0], part[1], part[2], part[3]); /* not wsprintfA: user32.dll loads fonts, in each program with sockets */
	return 0;
}

int WINAPI getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	addrinfo_function wine = WINE(addrinfo_function, GETADDRINFO_ORDINAL);
	struct addrinfo own = { 0 };
	char text[INET_ADDRSTRLEN];
	int error;

	if (!is_own_text(name) || (hints && hints->ai_flags & AI_NUMERICHOST))
		return wine(name, service, hints, result);
	if (hints)
		own = *hints;
	error = own_address(own.ai_family, text);
	if (error)
		return error;
	own.ai_flags &= ~AI_CANONNAME;
	error = wine(text, service, &own, result);
	if (!error && hints && hints->ai_flags & AI_CANONNAME)
		(*result)->ai_canonname = (char *)own_text(); /* Wine frees the list as one piece */
	return error;
}

/* Not for those who want the canonical name, which Wine frees apart from the list. */
int WINAPI GetAddrInfoW(const WCHAR *name, const WCHAR *service, const ADDRINFOW *hints, ADDRINFOW **result)
{
	addrinfow_function wine = WINE(addrinfow_function, GETADDRINFOW_ORDINAL);
	WCHAR wide[INET_ADDRSTRLEN];
	char text[INET_ADDRSTRLEN];
	int error;

	if (!name || !is_own(name) || (hints && hints->ai_flags & (AI_NUMERICHOST | AI_CANONNAME)))
		return wine(name, service, hints, result);
	error = own_address(hints ? hints->ai_family : AF_UNSPEC, text);
	if (error)
		return error;
	MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, INET_ADDRSTRLEN);
	return wine(wide, service, hints, result);
}
