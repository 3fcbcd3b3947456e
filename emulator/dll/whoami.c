/* whoami.exe: who runs the program, as Windows prints it. Wine's is told Wine's one user. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include <windows.h>

#include <sddl.h>

enum { ROOM = 512 };

/* Writes DOMAIN\NAME in small letters, as Windows does, and the SID of the program's user. */
static BOOL find(WCHAR *name, WCHAR *sid)
{
	union {
		TOKEN_USER user;
		BYTE room[ROOM];
	} info;
	WCHAR domain[ROOM], account[ROOM], *text;
	DWORD size, n = ROOM, length = ROOM;
	SID_NAME_USE use;
	HANDLE token;

	if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token) || !GetTokenInformation(token, TokenUser, &info, sizeof info, &size) ||
	    !LookupAccountSidW(NULL, info.user.User.Sid, account, &n, domain, &length, &use) || !ConvertSidToStringSidW(info.user.User.Sid, &text))
		return FALSE;
	_snwprintf(name, ROOM, L"%ls\\%ls", domain, account);
	wcscpy(sid, text);
	return CharLowerW(name) != NULL;
}

int wmain(int argc, WCHAR **argv)
{
	WCHAR name[ROOM], sid[ROOM], line[ROOM];
	size_t width;

	LoadLibraryW(L"bcryptprimitives.dll"); /* mends Wine for this program: emulator/dll/mend.h */
	if (argc > 1 && (argc > 2 || _wcsicmp(argv[1], L"/user"))) {
		fwprintf(stderr, L"ERROR: Invalid argument/option - '%ls'.\nType \"WHOAMI /?\" for usage.\n", argv[1]);
		return 1;
	}
	if (!find(name, sid)) {
		fwprintf(stderr, L"ERROR: Unable to get user name.\n");
		return 1;
	}
	if (argc == 1)
		return wprintf(L"%ls\n", name) < 0;
	width = wcslen(name);
	wmemset(line, L'=', width);
	line[width] = 0;
	wprintf(L"\nUSER INFORMATION\n----------------\n\n%-*ls SID\n%ls ", (int)width, L"User Name", line);
	wmemset(line, L'=', wcslen(sid));
	line[wcslen(sid)] = 0;
	return wprintf(L"%ls\n%ls %ls\n", line, name, sid) < 0;
}
