/* net.exe: `net user` and `net localgroup` of Windows, which Wine's has not; every other command goes to Wine's. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include <windows.h>

#include <lm.h>

/* Prints an error as Windows does and returns the exit code. */
static int end(NET_API_STATUS status)
{
	const WCHAR *text = NULL;
	WCHAR system[512];

	if (!status) {
		wprintf(L"The command completed successfully.\n\n");
		return 0;
	}
	switch (status) {
	case NERR_UserNotFound:
		text = L"The user name could not be found.\n";
		break;
	case NERR_GroupNotFound:
		text = L"The group name could not be found.\n";
		break;
	case NERR_UserExists:
		text = L"The account already exists.\n";
		break;
	case NERR_BadUsername:
		text = L"The user or group name parameter is not valid.\n";
		break;
	}
	if (status == ERROR_NO_SUCH_ALIAS) /* net.exe says so in place of "System error 1376" */
		text = L"The specified local group does not exist.\n";
	if (!text && FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, status, 0, system, 512, NULL))
		text = system;
	if (status < NERR_BASE)
		fwprintf(stderr, L"System error %lu has occurred.\n\n%ls\n", status, text ? text : L"");
	else
		fwprintf(stderr, L"%ls\nMore help is available by typing NET HELPMSG %lu.\n\n", text ? text : L"", status);
	return 2;
}

static int usage(const WCHAR *text)
{
	fwprintf(stderr, L"The syntax of this command is:\n\n%ls\n", text);
	return 1;
}

/* net user NAME [PASSWORD] {/add | /delete} */
static int user(int count, WCHAR **words, const WCHAR *option)
{
	USER_INFO_1 u = { 0 };
	BYTE *info;
	NET_API_STATUS status;

	if (count < 1 || count > 2)
		return usage(L"NET USER username [password] [/ADD | /DELETE]");
	if (!option) {
		status = NetUserGetInfo(NULL, words[0], 1, &info);
		if (!status)
			wprintf(L"User name                    %ls\nAccount active               Yes\n", words[0]);
		return end(status);
	}
	if (!_wcsicmp(option, L"/delete"))
		return end(NetUserDel(NULL, words[0]));
	if (_wcsicmp(option, L"/add"))
		return usage(L"NET USER username [password] [/ADD | /DELETE]");
	u.usri1_name = words[0];
	u.usri1_password = count > 1 ? words[1] : NULL;
	u.usri1_priv = USER_PRIV_USER;
	u.usri1_flags = UF_NORMAL_ACCOUNT | UF_SCRIPT;
	return end(NetUserAdd(NULL, 1, (BYTE *)&u, NULL));
}

/* net localgroup NAME [USER ...] {/add | /delete} */
static int group(int count, WCHAR **words, const WCHAR *option)
{
	LOCALGROUP_INFO_1 g = { 0 };
	LOCALGROUP_MEMBERS_INFO_3 member;
	NET_API_STATUS status = NERR_Success;
	BYTE *info;
	BOOL add = option && !_wcsicmp(option, L"/add");
	int i;

	if (count < 1 || (option && !add && _wcsicmp(option, L"/delete")))
		return usage(L"NET LOCALGROUP groupname [name [...]] [/ADD | /DELETE]");
	g.lgrpi1_name = words[0];
	if (!option) {
		status = NetLocalGroupGetInfo(NULL, words[0], 1, &info);
		if (!status)
			wprintf(L"Alias name     %ls\nComment        %ls\n\n", words[0], ((LOCALGROUP_INFO_1 *)(void *)info)->lgrpi1_comment);
		return end(status);
	}
	if (count == 1)
		return end(add ? NetLocalGroupAdd(NULL, 1, (BYTE *)&g, NULL) : NetLocalGroupDel(NULL, words[0]));
	for (i = 1; i < count && !status; i++) {
		member.lgrmi3_domainandname = words[i];
		status = add ? NetLocalGroupAddMembers(NULL, words[0], 3, (BYTE *)&member, 1) : NetLocalGroupDelMembers(NULL, words[0], 3, (BYTE *)&member, 1);
	}
	return end(status);
}

/* Runs Wine's net.exe with the same command line. */
static int wines(void)
{
	STARTUPINFOW start = { sizeof start };
	PROCESS_INFORMATION process;
	WCHAR path[MAX_PATH + 32];
	UINT n = GetSystemDirectoryW(path, MAX_PATH);
	DWORD code = 2;

	wcscpy(path + n, L"\\builtin\\net.exe");
	if (!CreateProcessW(path, GetCommandLineW(), NULL, NULL, TRUE, 0, NULL, NULL, &start, &process))
		return 2;
	WaitForSingleObject(process.hProcess, INFINITE);
	GetExitCodeProcess(process.hProcess, &code);
	return (int)code;
}

int wmain(int argc, WCHAR **argv)
{
	const WCHAR *option = NULL;
	int i, count = 0;

	LoadLibraryW(L"bcryptprimitives.dll"); /* mends Wine for this program: emulator/dll/mend.h */
	if (argc < 2 || (_wcsicmp(argv[1], L"user") && _wcsicmp(argv[1], L"localgroup")))
		return wines();
	for (i = 2; i < argc; i++)
		if (argv[i][0] == L'/')
			option = argv[i];
		else
			argv[2 + count++] = argv[i];
	return _wcsicmp(argv[1], L"user") ? group(count, argv + 2, option) : user(count, argv + 2, option);
}
