/* The local users and groups of the host, in the registry: where Windows has them, HKLM\SAM\SAM\Domains, in a form of our own. */
#ifndef SAM_H
#define SAM_H

#include <windows.h>

#define SAM_USERS L"SAM\\SAM\\Domains\\Account\\Users\\Names"
#define SAM_GROUPS L"SAM\\SAM\\Domains\\Account\\Aliases\\Names"

enum { SAM_NAME = 257, SAM_SID = 68 /* bytes of the longest SID */ };

/* A user or group is a key of its name: the number that ends its SID, and of a user the password, of a group a value for each member, named
 * by its SID. */
#define SAM_NUMBER L"Rid"
#define SAM_PASSWORD L"Password"
#define SAM_FLAGS L"Flags"

/* Writes the SID of the account of that number: S-1-5-21 and three numbers of the host. */
static inline void sam_sid(DWORD number, BYTE *sid)
{
	SID_IDENTIFIER_AUTHORITY nt = { SECURITY_NT_AUTHORITY };
	const DWORD parts[] = { SECURITY_NT_NON_UNIQUE, 1004336348, 1177238915, 682003330, number };
	DWORD i;

	InitializeSid((PSID)sid, &nt, 5);
	for (i = 0; i < 5; i++)
		*GetSidSubAuthority((PSID)sid, i) = parts[i];
}

/* Returns the number of an account, 0 if there is none of that name. */
static inline DWORD sam_number(const WCHAR *folder, const WCHAR *name)
{
	DWORD number = 0, size = sizeof number;
	WCHAR path[SAM_NAME + 64];

	if (!*name || lstrlenW(name) >= SAM_NAME || lstrlenW(folder) >= 60)
		return 0;
	lstrcpyW(path, folder);
	lstrcatW(path, L"\\");
	lstrcatW(path, name);
	if (RegGetValueW(HKEY_LOCAL_MACHINE, path, SAM_NUMBER, RRF_RT_REG_DWORD, NULL, &number, &size))
		return 0;
	return number;
}

#endif
