/* Users. Wine has one user, LogonUserW gives no token, and accounts are made in memory. Here the accounts of Windows itself and those in the
 * registry (sam.h) can log on. All tokens are Wine's one all the same: whose it is, is known in the program that has logged the user on, and in
 * the programs that it makes with the token, by their environment. */
#include "mend_groups.h"
#include "mend_user.h"
#include "sam.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include <sddl.h>

/* The variable that says who a program's user is. */
#define SID_VARIABLE L"WINEUSERSID"

enum { ENVIRONMENT = 0x80 }; /* where RTL_USER_PROCESS_PARAMETERS has it, on x64 */
enum { KNOWN = 64, VARIABLES = 4, LONGEST = 384 };

struct user {
	LUID token; /* Wine numbers its tokens */
	WCHAR name[SAM_NAME], sid[SAM_NAME];
};

/* Those that this program has logged on, the last ones. */
static struct user known[KNOWN];
static unsigned next;
static SRWLOCK lock = SRWLOCK_INIT;

/* Accounts of Windows itself: Microsoft, "LocalSystem Account", "LocalService Account", "NetworkService Account". */
static const struct {
	const WCHAR *name, *other, *sid, *profile;
	BOOL machine; /* their programs have the machine's account in USERNAME */
} accounts[] = {
	{ L"SYSTEM", L"LocalSystem", L"S-1-5-18", L"C:\\Windows\\system32\\config\\systemprofile", TRUE },
	{ L"LOCAL SERVICE", L"LocalService", L"S-1-5-19", L"C:\\Windows\\ServiceProfiles\\LocalService", FALSE },
	{ L"NETWORK SERVICE", L"NetworkService", L"S-1-5-20", L"C:\\Windows\\ServiceProfiles\\NetworkService", TRUE },
};

static BOOL token_number(HANDLE token, LUID *number)
{
	TOKEN_STATISTICS statistics;
	DWORD size;

	if (!GetTokenInformation(token, TokenStatistics, &statistics, sizeof statistics, &size))
		return FALSE;
	*number = statistics.TokenId;
	return TRUE;
}

static BOOL find_token(HANDLE token, struct user *found)
{
	LUID number;
	BOOL ok = FALSE;
	unsigned i;

	if (!next || !token_number(token, &number))
		return FALSE;
	AcquireSRWLockShared(&lock);
	for (i = 0; i < KNOWN && !ok; i++)
		if (*known[i].name && !memcmp(&known[i].token, &number, sizeof number)) {
			*found = known[i];
			ok = TRUE;
		}
	ReleaseSRWLockShared(&lock);
	return ok;
}

static void remember(const struct user *u)
{
	AcquireSRWLockExclusive(&lock);
	known[next++ % KNOWN] = *u;
	ReleaseSRWLockExclusive(&lock);
}

/* Reports whether the password is that of a local user. */
static BOOL right_password(const WCHAR *name, const WCHAR *password)
{
	WCHAR path[SAM_NAME + 64], have[SAM_NAME] = L"";
	DWORD size = sizeof have;

	swprintf(path, COUNT(path), L"%ls\\%ls", SAM_USERS, name);
	RegGetValueW(HKEY_LOCAL_MACHINE, path, SAM_PASSWORD, RRF_RT_REG_SZ, NULL, have, &size);
	return !wcscmp(have, password ? password : L"");
}

static BOOL is_host(const WCHAR *domain)
{
	WCHAR name[MAX_COMPUTERNAME_LENGTH + 1];
	DWORD size = COUNT(name);

	return !domain || !*domain || !wcscmp(domain, L".") || (GetComputerNameW(name, &size) && !_wcsicmp(domain, name));
}

/* Finds who logs on. Returns FALSE if Windows would not let them. */
static BOOL find_user(const WCHAR *name, const WCHAR *domain, const WCHAR *password, DWORD type, struct user *u)
{
	BYTE sid[SAM_SID];
	WCHAR *text;
	DWORD number;
	size_t i;

	if (!name || !*name || wcslen(name) >= SAM_NAME)
		return FALSE;
	if (domain && (!_wcsicmp(domain, L"NT AUTHORITY") || !_wcsicmp(domain, L"NT-AUTHORITY"))) {
		for (i = 0; i < COUNT(accounts); i++)
			if (type == LOGON32_LOGON_SERVICE && (!_wcsicmp(name, accounts[i].name) || !_wcsicmp(name, accounts[i].other))) {
				wcscpy(u->name, accounts[i].name);
				wcscpy(u->sid, accounts[i].sid);
				return TRUE;
			}
		return FALSE;
	}
	number = is_host(domain) ? sam_number(SAM_USERS, name) : 0;
	if (!number || !right_password(name, password))
		return FALSE;
	sam_sid(number, sid);
	if (!ConvertSidToStringSidW((PSID)sid, &text))
		return FALSE;
	wcscpy(u->name, name);
	wcscpy(u->sid, text);
	LocalFree(text);
	return TRUE;
}

static BOOL WINAPI logon_user(const WCHAR *name, const WCHAR *domain, const WCHAR *password, DWORD type, DWORD provider, HANDLE *token)
{
	struct user u = { 0 };
	HANDLE own;
	BOOL ok;

	(void)provider;
	if (!find_user(name, domain, password, type, &u)) {
		SetLastError(ERROR_LOGON_FAILURE);
		return FALSE;
	}
	if (!OpenProcessToken(GetCurrentProcess(), TOKEN_ALL_ACCESS, &own))
		return FALSE;
	ok = DuplicateTokenEx(own, TOKEN_ALL_ACCESS, NULL, SecurityImpersonation, TokenPrimary, token);
	CloseHandle(own);
	if (ok && token_number(*token, &u.token))
		remember(&u);
	return ok;
}

/* Writes the variables NAME=VALUE that the environment of a user's programs has. */
static void variables_of(const struct user *u, WCHAR to[VARIABLES][LONGEST])
{
	const WCHAR *name = u->name, *domain = L"NT AUTHORITY", *profile = NULL;
	WCHAR host[MAX_COMPUTERNAME_LENGTH + 2] = L"", own[LONGEST];
	DWORD size = MAX_COMPUTERNAME_LENGTH + 1;
	size_t i;

	GetComputerNameW(host, &size);
	for (i = 0; i < COUNT(accounts) && !profile; i++)
		if (!wcscmp(u->sid, accounts[i].sid)) {
			profile = accounts[i].profile;
			if (accounts[i].machine) {
				wcscat(host, L"$");
				name = host;
				domain = L"WORKGROUP";
			}
		}
	if (!profile) {
		swprintf(own, LONGEST, L"C:\\Users\\%.250ls", name);
		profile = own;
		domain = host;
	}
	swprintf(to[0], LONGEST, L"USERNAME=%ls", name);
	swprintf(to[1], LONGEST, L"USERDOMAIN=%ls", domain);
	swprintf(to[2], LONGEST, L"USERPROFILE=%ls", profile);
	swprintf(to[3], LONGEST, SID_VARIABLE L"=%ls", u->sid);
}

static BOOL is_replaced(const WCHAR *variable, WCHAR with[VARIABLES][LONGEST])
{
	int i;

	for (i = 0; i < VARIABLES; i++)
		if (!_wcsnicmp(variable, with[i], (size_t)(wcschr(with[i], L'=') - with[i] + 1)))
			return TRUE;
	return FALSE;
}

/* Writes the variable that says who this program's user is as often as there are variables; FALSE: it is Wine's. */
static BOOL own_variables(WCHAR to[VARIABLES][LONGEST])
{
	static const WCHAR head[] = SID_VARIABLE L"=";
	int i;

	for (i = 0; i < VARIABLES; i++) {
		wcscpy(to[i], head);
		if (!wine_variable(SID_VARIABLE, to[i] + COUNT(head) - 1, SAM_NAME))
			return FALSE;
	}
	return TRUE;
}

void *user_environment(HANDLE token, RTL_USER_PROCESS_PARAMETERS *parameters)
{
	WCHAR **place = (WCHAR **)(void *)((BYTE *)parameters + ENVIRONMENT), *before = *place, *now, *to, *p;
	static const size_t more = VARIABLES * LONGEST;
	WCHAR variables[VARIABLES][LONGEST];
	struct user u;
	BOOL other = token && find_token(token, &u); /* else it is one of the program's own, such as a restricted one */
	int i, count = other ? VARIABLES : 1;

	if (!before || (!other && !own_variables(variables)))
		return NULL;
	for (p = before; *p; p += wcslen(p) + 1)
		;
	now = to = HeapAlloc(GetProcessHeap(), 0, ((size_t)(p - before) + more + 1) * sizeof(WCHAR));
	if (!now)
		return NULL;
	if (other)
		variables_of(&u, variables);
	for (p = before; *p; p += wcslen(p) + 1)
		if (!is_replaced(p, variables)) {
			wcscpy(to, p);
			to += wcslen(to) + 1;
		}
	for (i = 0; i < count; i++) {
		wcscpy(to, variables[i]);
		to += wcslen(to) + 1;
	}
	*to = 0;
	*place = now;
	return before;
}

void user_environment_end(RTL_USER_PROCESS_PARAMETERS *parameters, void *before)
{
	WCHAR **place = (WCHAR **)(void *)((BYTE *)parameters + ENVIRONMENT);

	if (!before)
		return;
	HeapFree(GetProcessHeap(), 0, *place);
	*place = before;
}

/* What Wine's GetUserNameW does. */
static BOOL wine_user_name(WCHAR *name, DWORD *size)
{
	DWORD n = wine_variable(L"WINEUSERNAME", name, *size);

	if (!n || n >= *size) {
		*size = n;
		SetLastError(ERROR_INSUFFICIENT_BUFFER);
		return FALSE;
	}
	*size = n + 1;
	return TRUE;
}

/* The SID of a token's user, where it is not Wine's: of a token that was logged on here, or of this program. */
static PSID user_of(HANDLE token)
{
	WCHAR text[SAM_NAME];
	struct user u;
	PSID sid;

	if (find_token(token, &u))
		wcscpy(text, u.sid);
	else if (!wine_variable(SID_VARIABLE, text, COUNT(text)))
		return NULL;
	return ConvertStringSidToSidW(text, &sid) ? sid : NULL;
}

typedef NTSTATUS(NTAPI *query_token)(HANDLE, ULONG, void *, ULONG, ULONG *);

static void *token_original, *name_original, *sid_original;

/* Answers TokenUser. */
static NTSTATUS give_user(PSID sid, TOKEN_USER *to, ULONG size, ULONG *needed)
{
	ULONG length = sizeof *to + GetLengthSid(sid);

	if (needed)
		*needed = length;
	if (size < length)
		return (NTSTATUS)0xC0000023; /* STATUS_BUFFER_TOO_SMALL */
	to->User.Sid = (BYTE *)to + sizeof *to;
	to->User.Attributes = 0;
	CopySid(length - sizeof *to, to->User.Sid, sid);
	return 0;
}

static NTSTATUS NTAPI query_information_token(HANDLE token, ULONG class, void *info, ULONG size, ULONG *needed)
{
	PSID sid = class == TokenStatistics ? NULL : user_of(token); /* that is how user_of knows a token */
	NTSTATUS status;

	if (sid && class == TokenUser) {
		status = give_user(sid, info, size, needed);
	} else {
		status = ((query_token)token_original)(token, class, info, size, needed);
		if (sid && STATUS_OK(status) && is_plain_user(sid))
			as_plain_user(class, info);
	}
	if (sid)
		LocalFree(sid);
	return status;
}

/* Copies a text of an answer, if it is wanted. Room is in characters with the last zero. Returns FALSE if that is too little. */
static BOOL give(const WCHAR *text, WCHAR *to, DWORD *room)
{
	DWORD needed = (DWORD)wcslen(text) + 1;

	if (*room < needed) {
		*room = needed;
		return FALSE;
	}
	if (to)
		wcscpy(to, text);
	*room = needed - 1;
	return TRUE;
}

static BOOL WINAPI lookup_account_name(const WCHAR *system, const WCHAR *account, PSID sid, DWORD *sid_size, WCHAR *domain, DWORD *domain_size,
				       SID_NAME_USE *use)
{
	const WCHAR *name = account ? wcschr(account, L'\\') : NULL;
	WCHAR host[MAX_COMPUTERNAME_LENGTH + 1] = L"";
	DWORD host_size = COUNT(host), number, length, room;
	BYTE found[SAM_SID];
	BOOL user, enough;

	name = name ? name + 1 : account;
	number = name ? sam_number(SAM_USERS, name) : 0;
	user = number != 0;
	if (!number && name)
		number = sam_number(SAM_GROUPS, name);
	if (!number)
		return ((BOOL(WINAPI *)(const WCHAR *, const WCHAR *, PSID, DWORD *, WCHAR *, DWORD *, SID_NAME_USE *))name_original)(
			system, account, sid, sid_size, domain, domain_size, use);

	sam_sid(number, found);
	length = GetLengthSid((PSID)found);
	room = *sid_size;
	*sid_size = length;
	GetComputerNameW(host, &host_size);
	enough = give(host, domain, domain_size);
	if (!sid || room < length || !enough) {
		SetLastError(ERROR_INSUFFICIENT_BUFFER);
		return FALSE;
	}
	CopySid(room, sid, (PSID)found);
	*use = user ? SidTypeUser : SidTypeAlias;
	return TRUE;
}

/* Finds the account of that number in a folder of accounts. */
static BOOL account_of(const WCHAR *folder, DWORD number, WCHAR *name)
{
	DWORD i, size = SAM_NAME;
	BOOL found = FALSE;
	HKEY key;

	if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, folder, 0, KEY_READ, &key))
		return FALSE;
	for (i = 0; !found && !RegEnumKeyExW(key, i, name, &size, NULL, NULL, NULL, NULL); i++, size = SAM_NAME)
		found = sam_number(folder, name) == number;
	RegCloseKey(key);
	return found;
}

/* Returns the name of an account that only containers have, S-1-5-93-2-1 and -2 (containerd, integration/volume_copy_up_test.go), or NULL.
 * A container is known by a value of its registry (emulator/guest). */
static const WCHAR *container_account(PSID sid)
{
	static const WCHAR *const names[] = { L"ContainerAdministrator", L"ContainerUser" };
	const DWORD container = 93, users = 2;
	DWORD type, size = sizeof type, number = *GetSidSubAuthority(sid, 2) - 1;

	if (*GetSidSubAuthority(sid, 0) != container || *GetSidSubAuthority(sid, 1) != users || number >= COUNT(names))
		return NULL;
	if (RegGetValueW(HKEY_LOCAL_MACHINE, L"System\\CurrentControlSet\\Control", L"ContainerType", RRF_RT_REG_DWORD, NULL, &type, &size))
		return NULL;
	return names[number];
}

/* Returns the name of an account of Windows itself and its domain, NULL if the SID is of another. */
static const WCHAR *own_account(PSID sid, const WCHAR **domain)
{
	static const DWORD first = 18; /* S-1-5-18 */
	SID_IDENTIFIER_AUTHORITY nt = { SECURITY_NT_AUTHORITY };
	DWORD number;

	if (memcmp(GetSidIdentifierAuthority(sid), &nt, sizeof nt))
		return NULL;
	*domain = L"User Manager";
	if (*GetSidSubAuthorityCount(sid) == 3)
		return container_account(sid);
	*domain = L"NT AUTHORITY";
	if (*GetSidSubAuthorityCount(sid) != 1)
		return NULL;
	number = *GetSidSubAuthority(sid, 0) - first;
	return number < COUNT(accounts) ? accounts[number].name : NULL;
}

static BOOL WINAPI lookup_account_sid(const WCHAR *system, PSID sid, WCHAR *name, DWORD *name_size, WCHAR *domain, DWORD *domain_size, SID_NAME_USE *use)
{
	WCHAR found[SAM_NAME], host[MAX_COMPUTERNAME_LENGTH + 1] = L"";
	DWORD host_size = COUNT(host), number;
	const WCHAR *own_domain, *own = IsValidSid(sid) ? own_account(sid, &own_domain) : NULL;
	BYTE ours[SAM_SID];
	BOOL enough, user;

	if (own) {
		enough = give(own, name, name_size);
		if (!give(own_domain, domain, domain_size) || !enough)
			goto too_small;
		*use = SidTypeWellKnownGroup;
		return TRUE;
	}
	sam_sid(0, ours);
	if (!IsValidSid(sid) || *GetSidSubAuthorityCount(sid) != 5 || !EqualPrefixSid(sid, (PSID)ours))
		goto wines;
	number = *GetSidSubAuthority(sid, 4);
	user = account_of(SAM_USERS, number, found);
	if (!user && !account_of(SAM_GROUPS, number, found))
		goto wines;
	GetComputerNameW(host, &host_size);
	enough = give(found, name, name_size);
	if (!give(host, domain, domain_size) || !enough)
		goto too_small;
	*use = user ? SidTypeUser : SidTypeAlias;
	return TRUE;
too_small:
	SetLastError(ERROR_INSUFFICIENT_BUFFER);
	return FALSE;
wines:
	return ((BOOL(WINAPI *)(const WCHAR *, PSID, WCHAR *, DWORD *, WCHAR *, DWORD *, SID_NAME_USE *))sid_original)(system, sid, name, name_size, domain,
														       domain_size, use);
}

static BOOL WINAPI get_user_name(WCHAR *name, DWORD *size)
{
	WCHAR text[SAM_NAME], found[SAM_NAME], domain[SAM_NAME];
	DWORD length = SAM_NAME, domain_length = SAM_NAME;
	SID_NAME_USE use;
	PSID sid;
	BOOL ok;

	if (!wine_variable(SID_VARIABLE, text, COUNT(text)) || !ConvertStringSidToSidW(text, &sid))
		return wine_user_name(name, size);
	ok = lookup_account_sid(NULL, sid, found, &length, domain, &domain_length, &use);
	LocalFree(sid);
	if (!ok)
		return wine_user_name(name, size);
	if (!give(found, name, size)) {
		SetLastError(ERROR_INSUFFICIENT_BUFFER);
		return FALSE;
	}
	(*size)++; /* with the last zero, unlike others */
	return TRUE;
}

struct mend user_mends[] = {
	{ "NtQueryInformationToken", "all tokens are of one user", (void *)query_information_token, &token_original, NULL, FALSE },
	{ "LogonUserW", "users cannot log on", (void *)logon_user, NULL, NULL, FALSE, L"advapi32.dll" },
	{ "GetUserNameW", "programs are told Wine's user", (void *)get_user_name, NULL, NULL, FALSE, L"advapi32.dll" },
	{ "LookupAccountNameW", "local users have no SID", (void *)lookup_account_name, &name_original, NULL, FALSE, L"advapi32.dll" },
	{ "LookupAccountSidW", "local users have no name", (void *)lookup_account_sid, &sid_original, NULL, FALSE, L"advapi32.dll" },
	{ 0 },
};
