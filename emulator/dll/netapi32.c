/* netapi32.dll: the local users and groups of the host, which are in the registry (sam.h), so that all programs see the same. Wine keeps
 * users in the memory of each program and has no groups. Every other function is Wine's. */
#include "builtin.h"
#include "sam.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include <lm.h>
#include <sddl.h>

#define API __declspec(dllexport) NET_API_STATUS WINAPI
#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { GET_INFO_OF_USER = 212 }; /* ordinal of Wine's own */
enum { FIRST_NUMBER = 1001, LONGEST_USER = 20, PATH_ROOM = SAM_NAME + 64 };

/* Groups that every Windows has (Microsoft, "Well-known SIDs", S-1-5-32). */
static const WCHAR *const builtin_groups[] = {
	L"Access Control Assistance Operators", L"Administrators", L"Backup Operators", L"Certificate Service DCOM Access", L"Cryptographic Operators",
	L"Device Owners", L"Distributed COM Users", L"Event Log Readers", L"Guests", L"Hyper-V Administrators", L"IIS_IUSRS",
	L"Network Configuration Operators", L"Performance Log Users", L"Performance Monitor Users", L"Power Users", L"Print Operators",
	L"RDS Endpoint Servers", L"RDS Management Servers", L"RDS Remote Access Servers", L"Remote Desktop Users", L"Remote Management Users",
	L"Replicator", L"Storage Replica Administrators", L"System Managed Accounts Group", L"Users",
};

static BOOL is_builtin_group(const WCHAR *name)
{
	size_t i;

	for (i = 0; i < COUNT(builtin_groups); i++)
		if (!_wcsicmp(name, builtin_groups[i]))
			return TRUE;
	return FALSE;
}

static BOOL is_group(const WCHAR *name) { return name && (is_builtin_group(name) || sam_number(SAM_GROUPS, name)); }

static BOOL is_user(const WCHAR *name) { return name && sam_number(SAM_USERS, name); }

/* A name that an account can have (Microsoft, NetUserAdd). */
static BOOL is_name(const WCHAR *name, size_t longest)
{
	return name && *name && wcslen(name) <= longest && !wcspbrk(name, L"\"/\\[]:;|=,+*?<>");
}

/* Opens the key of an account; the caller closes it. */
static LSTATUS open_account(const WCHAR *folder, const WCHAR *name, HKEY *key)
{
	WCHAR path[PATH_ROOM];

	swprintf(path, PATH_ROOM, L"%ls\\%ls", folder, name);
	return RegCreateKeyExW(HKEY_LOCAL_MACHINE, path, 0, NULL, 0, KEY_ALL_ACCESS, NULL, key, NULL);
}

static LSTATUS set_text(HKEY key, const WCHAR *value, const WCHAR *text)
{
	if (!text)
		text = L"";
	return RegSetValueExW(key, value, 0, REG_SZ, (const BYTE *)text, (DWORD)((wcslen(text) + 1) * sizeof *text));
}

static LSTATUS set_number(HKEY key, const WCHAR *value, DWORD number)
{
	return RegSetValueExW(key, value, 0, REG_DWORD, (const BYTE *)&number, sizeof number);
}

/* Takes the next number of an account. Numbers are not used again, as on Windows. */
static DWORD new_number(void)
{
	HANDLE mutex = CreateMutexW(NULL, FALSE, L"Global\\porthole-sam");
	DWORD number = FIRST_NUMBER, size = sizeof number;
	HKEY key;

	WaitForSingleObject(mutex, INFINITE);
	if (!RegCreateKeyExW(HKEY_LOCAL_MACHINE, L"SAM\\SAM\\Domains\\Account", 0, NULL, 0, KEY_ALL_ACCESS, NULL, &key, NULL)) {
		RegGetValueW(key, NULL, L"NextRid", RRF_RT_REG_DWORD, NULL, &number, &size);
		set_number(key, L"NextRid", number + 1);
		RegCloseKey(key);
	}
	ReleaseMutex(mutex);
	CloseHandle(mutex);
	return number;
}

API NetUserAdd(LPCWSTR server, DWORD level, LPBYTE buffer, LPDWORD error)
{
	const USER_INFO_1 *u = (const void *)buffer; /* the higher levels begin with it */
	LSTATUS status;
	HKEY key;

	(void)server;
	if (error)
		*error = 0;
	if (!u || level < 1 || level > 4)
		return u ? ERROR_INVALID_LEVEL : ERROR_INVALID_PARAMETER;
	if (!is_name(u->usri1_name, LONGEST_USER))
		return NERR_BadUsername;
	if (is_user(u->usri1_name))
		return NERR_UserExists;
	if (is_group(u->usri1_name))
		return NERR_GroupExists;
	status = open_account(SAM_USERS, u->usri1_name, &key);
	if (status)
		return (NET_API_STATUS)status;
	set_text(key, SAM_PASSWORD, u->usri1_password);
	set_text(key, L"Comment", u->usri1_comment);
	set_number(key, SAM_FLAGS, u->usri1_flags);
	set_number(key, SAM_NUMBER, new_number());
	RegCloseKey(key);
	return NERR_Success;
}

/* Writes the SID of a user as text, which the caller frees. */
static WCHAR *sid_text(DWORD number)
{
	BYTE sid[SAM_SID];
	WCHAR *text = NULL;

	sam_sid(number, sid);
	ConvertSidToStringSidW((PSID)sid, &text);
	return text;
}

/* Takes a user out of a group that is in the registry. */
static void leave_group(const WCHAR *group, const WCHAR *member)
{
	WCHAR path[PATH_ROOM];
	HKEY key;

	swprintf(path, PATH_ROOM, L"%ls\\%ls\\Members", SAM_GROUPS, group);
	if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, path, 0, KEY_ALL_ACCESS, &key))
		return;
	RegDeleteValueW(key, member);
	RegCloseKey(key);
}

API NetUserDel(LPCWSTR server, LPCWSTR name)
{
	WCHAR path[PATH_ROOM], group[SAM_NAME], *member;
	DWORD i, size = SAM_NAME;
	HKEY groups;

	(void)server;
	if (!is_user(name))
		return NERR_UserNotFound;
	member = sid_text(sam_number(SAM_USERS, name));
	if (member && !RegOpenKeyExW(HKEY_LOCAL_MACHINE, SAM_GROUPS, 0, KEY_READ, &groups)) {
		for (i = 0; !RegEnumKeyExW(groups, i, group, &size, NULL, NULL, NULL, NULL); i++, size = SAM_NAME)
			leave_group(group, member);
		RegCloseKey(groups);
	}
	LocalFree(member);
	swprintf(path, PATH_ROOM, L"%ls\\%ls", SAM_USERS, name);
	return (NET_API_STATUS)RegDeleteTreeW(HKEY_LOCAL_MACHINE, path);
}

/* Fills a structure whose members are texts and numbers, of which the texts follow it. Returns NULL without memory. */
static WCHAR *put(WCHAR **end, const WCHAR *text)
{
	WCHAR *at = *end;

	wcscpy(at, text);
	*end += wcslen(text) + 1;
	return at;
}

API NetUserGetInfo(LPCWSTR server, LPCWSTR name, DWORD level, LPBYTE *buffer)
{
	struct {
		union {
			USER_INFO_0 zero;
			USER_INFO_1 one;
			USER_INFO_10 ten;
			USER_INFO_23 twentythree;
		} info;
		BYTE sid[SAM_SID];
		WCHAR text[2 * SAM_NAME];
	} *u;
	WCHAR *end;
	DWORD number = name ? sam_number(SAM_USERS, name) : 0;

	if (!number)
		return ((NET_API_STATUS(WINAPI *)(LPCWSTR, LPCWSTR, DWORD, LPBYTE *))(void *)builtin_function[GET_INFO_OF_USER])(server, name, level,
																 buffer);
	if (level != 0 && level != 1 && level != 10 && level != 23)
		return ERROR_INVALID_LEVEL;
	u = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *u);
	if (!u)
		return ERROR_NOT_ENOUGH_MEMORY;
	end = u->text;
	u->info.zero.usri0_name = put(&end, name);
	sam_sid(number, u->sid);
	switch (level) {
	case 1:
		u->info.one.usri1_priv = USER_PRIV_USER;
		u->info.one.usri1_flags = UF_NORMAL_ACCOUNT | UF_SCRIPT;
		u->info.one.usri1_home_dir = u->info.one.usri1_comment = u->info.one.usri1_script_path = put(&end, L"");
		break;
	case 10:
		u->info.ten.usri10_comment = u->info.ten.usri10_usr_comment = u->info.ten.usri10_full_name = put(&end, L"");
		break;
	case 23:
		u->info.twentythree.usri23_full_name = u->info.twentythree.usri23_comment = put(&end, L"");
		u->info.twentythree.usri23_flags = UF_NORMAL_ACCOUNT | UF_SCRIPT;
		u->info.twentythree.usri23_user_sid = (PSID)u->sid;
	}
	*buffer = (LPBYTE)u;
	return NERR_Success;
}

API NetLocalGroupAdd(LPCWSTR server, DWORD level, LPBYTE buffer, LPDWORD error)
{
	const LOCALGROUP_INFO_1 *g = (const void *)buffer;
	LSTATUS status;
	HKEY key;

	(void)server;
	if (error)
		*error = 0;
	if (!g || level > 1)
		return g ? ERROR_INVALID_LEVEL : ERROR_INVALID_PARAMETER;
	if (!is_name(g->lgrpi1_name, SAM_NAME - 1))
		return ERROR_INVALID_PARAMETER;
	if (is_group(g->lgrpi1_name))
		return ERROR_ALIAS_EXISTS;
	if (is_user(g->lgrpi1_name))
		return NERR_UserExists;
	status = open_account(SAM_GROUPS, g->lgrpi1_name, &key);
	if (status)
		return (NET_API_STATUS)status;
	set_text(key, L"Comment", level == 1 ? g->lgrpi1_comment : NULL);
	set_number(key, SAM_NUMBER, new_number());
	RegCloseKey(key);
	return NERR_Success;
}

API NetLocalGroupDel(LPCWSTR server, LPCWSTR name)
{
	WCHAR path[PATH_ROOM];

	(void)server;
	if (!is_group(name))
		return NERR_GroupNotFound;
	if (is_builtin_group(name))
		return ERROR_ACCESS_DENIED;
	swprintf(path, PATH_ROOM, L"%ls\\%ls", SAM_GROUPS, name);
	return (NET_API_STATUS)RegDeleteTreeW(HKEY_LOCAL_MACHINE, path);
}

API NetLocalGroupGetInfo(LPCWSTR server, LPCWSTR name, DWORD level, LPBYTE *buffer)
{
	struct {
		LOCALGROUP_INFO_1 info;
		WCHAR text[2 * SAM_NAME];
	} *g;
	WCHAR path[PATH_ROOM], *end;
	DWORD size = SAM_NAME * sizeof *end;

	(void)server;
	if (!is_group(name))
		return NERR_GroupNotFound;
	if (level > 1)
		return ERROR_INVALID_LEVEL;
	g = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *g);
	if (!g)
		return ERROR_NOT_ENOUGH_MEMORY;
	end = g->text;
	g->info.lgrpi1_name = put(&end, name);
	g->info.lgrpi1_comment = end;
	swprintf(path, PATH_ROOM, L"%ls\\%ls", SAM_GROUPS, name);
	RegGetValueW(HKEY_LOCAL_MACHINE, path, L"Comment", RRF_RT_REG_SZ, NULL, end, &size);
	*buffer = (LPBYTE)g;
	return NERR_Success;
}

/* Returns the SID of a member that a function is given by SID (level 0) or name (level 3), as text that the caller frees. */
static WCHAR *member_text(DWORD level, const BYTE *buffer, DWORD i)
{
	WCHAR *text = NULL, domain[SAM_NAME];
	DWORD size = SAM_SID, length = SAM_NAME;
	BYTE sid[SAM_SID];
	SID_NAME_USE use;

	if (level == 0)
		ConvertSidToStringSidW(((const LOCALGROUP_MEMBERS_INFO_0 *)(const void *)buffer)[i].lgrmi0_sid, &text);
	else if (LookupAccountNameW(NULL, ((const LOCALGROUP_MEMBERS_INFO_3 *)(const void *)buffer)[i].lgrmi3_domainandname, (PSID)sid, &size, domain,
				    &length, &use))
		ConvertSidToStringSidW((PSID)sid, &text);
	return text;
}

/* Adds members to a group or takes them away. */
static NET_API_STATUS change_members(const WCHAR *group, DWORD level, const BYTE *buffer, DWORD count, BOOL add)
{
	WCHAR members[PATH_ROOM], *text;
	NET_API_STATUS status = NERR_Success;
	HKEY key;
	DWORD i;

	if (!is_group(group))
		return ERROR_NO_SUCH_ALIAS;
	if (level != 0 && level != 3)
		return ERROR_INVALID_LEVEL;
	swprintf(members, PATH_ROOM, L"%ls\\Members", group);
	status = (NET_API_STATUS)open_account(SAM_GROUPS, members, &key);
	for (i = 0; i < count && !status; i++) {
		text = member_text(level, buffer, i);
		if (!text)
			status = ERROR_NO_SUCH_MEMBER;
		else if ((RegQueryValueExW(key, text, NULL, NULL, NULL, NULL) == 0) == add)
			status = add ? ERROR_MEMBER_IN_ALIAS : ERROR_MEMBER_NOT_IN_ALIAS;
		else if (add)
			status = (NET_API_STATUS)set_text(key, text, L"");
		else
			status = (NET_API_STATUS)RegDeleteValueW(key, text);
		LocalFree(text);
	}
	RegCloseKey(key);
	return status;
}

API NetLocalGroupAddMembers(LPCWSTR server, LPCWSTR group, DWORD level, LPBYTE buffer, DWORD count)
{
	(void)server;
	return change_members(group, level, buffer, count, TRUE);
}

API NetLocalGroupDelMembers(LPCWSTR server, LPCWSTR group, DWORD level, LPBYTE buffer, DWORD count)
{
	(void)server;
	return change_members(group, level, buffer, count, FALSE);
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
	(void)reserved;
	if (reason != DLL_PROCESS_ATTACH)
		return TRUE;
	DisableThreadLibraryCalls(self);
	return builtin_load(L"netapi32.dll");
}
