/* The token of a program. What runs on a host runs as an administrator, whose programs have an elevated token on
 * Windows Server Core. So they had with Wine 8.0; Wine 10.0 starts programs with a limited one, in which the group of
 * administrators only forbids, unless they ask for more in their manifest, as few console programs do
 * (server/process.c). Then its ntdll gives them the elevated token that the limited one is linked to (elevate_token in
 * dlls/ntdll/loader.c), and so does this. A program that it starts gets its token. */
#include "mend.h"

/* TokenElevationType, TokenLinkedToken, TokenElevationTypeLimited (winnt.h), ProcessAccessToken (ntddk.h) */
enum { ELEVATION_TYPE = 18, LINKED_TOKEN = 19, LIMITED = 3, ACCESS_TOKEN = 9 };

typedef NTSTATUS(NTAPI *query_token)(HANDLE, ULONG, void *, ULONG, ULONG *);
typedef NTSTATUS(NTAPI *set_process)(HANDLE, ULONG, void *, ULONG);

static void *function(const char *name) { return (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), name); }

static BOOL query(HANDLE token, ULONG class, void *info, ULONG size)
{
	query_token ask = (query_token)function("NtQueryInformationToken");
	ULONG used;

	return ask && STATUS_OK(ask(token, class, info, size, &used));
}

/* Makes the token the process's. What fails leaves the one that is there: porthole.exe says what it lacks. */
static void become(HANDLE elevated)
{
	set_process set = (set_process)function("NtSetInformationProcess");
	struct {
		HANDLE token, thread;
	} access = { NULL, NULL }; /* PROCESS_ACCESS_TOKEN */

	if (!set || !DuplicateTokenEx(elevated, 0, NULL, SecurityAnonymous, TokenPrimary, &access.token))
		return;
	set(GetCurrentProcess(), ACCESS_TOKEN, &access, sizeof access);
	CloseHandle(access.token);
}

void admin_begin(void)
{
	HANDLE token, elevated;
	ULONG type;

	if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
		return;
	if (query(token, ELEVATION_TYPE, &type, sizeof type) && type == LIMITED &&
	    query(token, LINKED_TOKEN, &elevated, sizeof elevated)) {
		become(elevated);
		CloseHandle(elevated);
	}
	CloseHandle(token);
}
