/* The parent of services. On Windows it is services.exe, of session 0, by which programs know that they are services: .NET, and
 * svc.IsWindowsService of golang.org/x/sys, on which containerd.exe decides whether to answer the service manager. The service manager of
 * an emulated host is a program of Linux, which Wine does not list, and sets MARK for the processes that it starts. They see Wine's own
 * services.exe as their parent, and session 0 in the list of processes. ProcessIdToSessionId goes on to say 1, by which Wine finds named
 * objects. Their children have a parent anyway.
 *
 * MARK is the service's name. On Windows the service manager adds the strings of the value Environment in the service's registry key to the
 * environment of its process; here the process does so itself, before the program's own code runs. */
#include "mend.h"

#include <wchar.h>

static const WCHAR mark[] = L"PORTHOLE_SERVICE", manager[] = L"services.exe", services[] = L"SYSTEM\\CurrentControlSet\\Services\\";

enum { NAME_ROOM = 257 }; /* for a service's name, of 256 characters at most */

enum { PROCESSES = 5, BASIC = 0 }; /* SYSTEM_INFORMATION_CLASS; PROCESSINFOCLASS */
enum { ROOM = 0x100000 };		      /* for the list of all processes */

/* SYSTEM_PROCESS_INFORMATION on x64, as far as it is used here (winternl.h names less of it). */
struct process {
	ULONG next, threads;
	BYTE unused[0x30];
	UNICODE_STRING name;
	LONG priority;
	HANDLE id, parent;
	ULONG handles, session;
};

/* PROCESS_BASIC_INFORMATION */
struct basic {
	BYTE unused[0x20];
	ULONG_PTR id, parent;
};

typedef NTSTATUS(NTAPI *query_system)(ULONG, void *, ULONG, ULONG *);
typedef NTSTATUS(NTAPI *query_process)(HANDLE, ULONG, void *, ULONG, ULONG *);

static void *system_original, *process_original;

/* Adds a list of NAME=VALUE to the environment. A name may begin with an equals sign. */
static void add_strings(WCHAR *list)
{
	for (; *list; list += lstrlenW(list) + 1) {
		WCHAR *equals = wcschr(list + 1, L'=');

		if (!equals)
			continue;
		*equals = 0;
		SetEnvironmentVariableW(list, equals + 1);
		*equals = L'=';
	}
}

static void add_environment(const WCHAR *service)
{
	WCHAR key[COUNT(services) + NAME_ROOM], *list;
	DWORD size = 0;

	lstrcpyW(key, services);
	lstrcatW(key, service);
	if (RegGetValueW(HKEY_LOCAL_MACHINE, key, L"Environment", RRF_RT_REG_MULTI_SZ, NULL, NULL, &size) || !size)
		return;
	list = VirtualAlloc(NULL, size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
	if (list && !RegGetValueW(HKEY_LOCAL_MACHINE, key, L"Environment", RRF_RT_REG_MULTI_SZ, NULL, list, &size))
		add_strings(list);
	if (list)
		VirtualFree(list, 0, MEM_RELEASE);
}

/* Reports whether the service manager has started this process. The first call, in the process's first thread, takes the mark away, so that
 * neither the program nor its children see it. */
static BOOL is_service(void)
{
	static int known;
	WCHAR name[NAME_ROOM];
	DWORD length;

	if (!known) {
		length = GetEnvironmentVariableW(mark, name, COUNT(name));
		known = length ? 2 : 1;
		SetEnvironmentVariableW(mark, NULL);
		if (length && length < COUNT(name))
			add_environment(name);
	}
	return known == 2;
}

static BOOL is_manager(const struct process *p)
{
	return p->name.Length == sizeof manager - sizeof(WCHAR) && !_wcsnicmp(p->name.Buffer, manager, COUNT(manager) - 1);
}

static struct process *next(struct process *p)
{
	return p->next ? (struct process *)(void *)((BYTE *)p + p->next) : NULL;
}

static HANDLE manager_in(struct process *list)
{
	for (; list; list = next(list))
		if (is_manager(list))
			return list->id;
	return NULL;
}

/* Finds the manager's process; NULL if there is none. */
static HANDLE find_manager(void)
{
	void *list = VirtualAlloc(NULL, ROOM, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
	HANDLE found = NULL;

	if (list && STATUS_OK(((query_system)system_original)(PROCESSES, list, ROOM, NULL)))
		found = manager_in(list);
	if (list)
		VirtualFree(list, 0, MEM_RELEASE);
	return found;
}

static NTSTATUS NTAPI query_system_information(ULONG class, void *info, ULONG size, ULONG *result)
{
	NTSTATUS status = question_fails(class) ? (NTSTATUS)0xc0000001 /* STATUS_UNSUCCESSFUL */ : ((query_system)system_original)(class, info, size, result);
	struct process *p = info;
	HANDLE parent;

	if (!status && mend_on[MEND_MEMORY])
		memory_of_host(class, info, size);
	if (class != PROCESSES || status)
		return status;
	for (parent = manager_in(p); p; p = next(p)) {
		BOOL own = is_service() && p->id == (HANDLE)(ULONG_PTR)GetCurrentProcessId();
		if (own && !p->parent)
			p->parent = parent;
		if (own || is_manager(p))
			p->session = 0;
	}
	return status;
}

static NTSTATUS NTAPI query_information_process(HANDLE process, ULONG class, void *info, ULONG size, ULONG *result)
{
	struct basic *basic = info;
	NTSTATUS status;

	if (mend_on[MEND_WORKING_SET] && memory_counters(process_original, process, class, info, size, result, &status))
		return status;
	status = ((query_process)process_original)(process, class, info, size, result);
	if (!status && class == BASIC && is_service() && basic->id == GetCurrentProcessId() && !basic->parent)
		basic->parent = (ULONG_PTR)find_manager();
	return status;
}

#define PARENT "services do not see services.exe as their parent"

struct mend service_mends[] = {
	{ "NtQuerySystemInformation", PARENT ", and a host has no memory of its own", (void *)query_system_information, &system_original, NULL, FALSE },
	{ "NtQueryInformationProcess", PARENT ", and processes have no private working set", (void *)query_information_process, &process_original, NULL, FALSE },
	{ 0 },
};

/* Has the mark read before the program's own code runs. */
void service_begin(void) { is_service(); }
