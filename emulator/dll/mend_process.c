/* Programs of silos. A silo sees files of its own (bindfltapi.dll), which are a second mount of the host's Wine prefix with more mounted on
 * it; hcsd makes it (emulator/hcsd/silos/store_linux.go). Wine's Linux half takes the prefix from the variable WINEPREFIX of a program's
 * Linux environment, and a program that it starts inherits that. So a program that is made in a silo's job is made with this variable
 * changed, for the moment. The value has to be as long: it is changed where Linux put it at the start of this program. */
#include "mend.h"
#include "mend_user.h"

#include <string.h>
#include <wchar.h>

#include "linux.h"

enum { SYS_READ = 0, SYS_OPEN = 2, SYS_ACCESS = 21 };
enum { NAME_INFORMATION = 1, LONGEST = 512 /* characters of a job's name */ };
enum { ENVIRONMENT_BEGIN = 50, ENVIRONMENT_END = 51 }; /* fields of /proc/PID/stat (proc_pid_stat(5)) */

#define JOB_LIST 0x20013u /* PS_ATTRIBUTE_JOB_LIST (Wine 8.0, include/winternl.h) */
#define TOKEN 0x60002u	  /* PS_ATTRIBUTE_TOKEN */

/* STATUS_INTERNAL_ERROR: Wine's answer if the Linux process of the new program ends before the program's first instruction (Wine 8.0,
 * dlls/ntdll/unix/process.c). Seen rarely on a busy machine, never twice in a row; Windows does not know it. */
#define DIED_EARLY ((NTSTATUS)0xc00000e5)
#define TRIES 3

struct attribute {
	ULONG_PTR attribute;
	SIZE_T size;
	ULONG_PTR value;
	SIZE_T *returned;
};

struct attributes {
	SIZE_T size;
	struct attribute list[1];
};

typedef NTSTATUS(NTAPI *create_process)(HANDLE *, HANDLE *, ULONG, ULONG, OBJECT_ATTRIBUTES *, OBJECT_ATTRIBUTES *, ULONG, ULONG,
					RTL_USER_PROCESS_PARAMETERS *, void *, struct attributes *);
typedef NTSTATUS(NTAPI *query_object)(HANDLE, ULONG, void *, ULONG, ULONG *);

static void *original;
static SRWLOCK lock = SRWLOCK_INIT; /* the environment is the process' */

/* Returns the number in a field of /proc/self/stat. The second field, a name in brackets, can have spaces. */
static uintptr_t stat_field(const char *stat, int field)
{
	const char *p = strrchr(stat, ')');
	uintptr_t n = 0;
	int i;

	for (i = 2; p && i < field; i++)
		p = strchr(p + 1, ' ');
	for (p = p ? p + 1 : ""; *p >= '0' && *p <= '9'; p++)
		n = n * 10 + (uintptr_t)(*p - '0');
	return n;
}

/* Finds the value of WINEPREFIX, which ends with "/prefix" on an emulated host. NULL: there is none. */
static char *prefix_value(void)
{
	static const char name[] = "WINEPREFIX=", end[] = "/prefix";
	char stat[1024];
	intptr_t fd = linux_call(SYS_OPEN, (intptr_t)"/proc/self/stat", 0, 0, 0, 0), n;
	char *p, *last;

	if (fd < 0)
		return NULL;
	n = linux_call(SYS_READ, fd, (intptr_t)stat, sizeof stat - 1, 0, 0);
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	stat[n > 0 ? n : 0] = 0;
	p = (char *)stat_field(stat, ENVIRONMENT_BEGIN);
	last = (char *)stat_field(stat, ENVIRONMENT_END);
	for (; p && p < last; p += strlen(p) + 1) {
		size_t length = strlen(p);

		if (!strncmp(p, name, sizeof name - 1) && length > sizeof name + sizeof end && !strcmp(p + length - (sizeof end - 1), end))
			return p + sizeof name - 1;
	}
	return NULL;
}

/* Writes the name of the folder of a job's silo, as long as "prefix". Returns FALSE if the job has no name. */
static BOOL silo_name(HANDLE job, char *to)
{
	static const char digits[] = "0123456789abcdef";
	struct {
		UNICODE_STRING name;
		WCHAR text[LONGEST];
	} info = { 0 };
	query_object query = (query_object)(void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtQueryObject");
	UINT32 hash = 2166136261u; /* FNV-1a */
	const WCHAR *p;
	int i;

	if (!query || !STATUS_OK(query(job, NAME_INFORMATION, &info, sizeof info - sizeof(WCHAR), NULL)) || !info.name.Length)
		return FALSE;
	p = wcsrchr(info.name.Buffer, L'\\');
	for (p = p ? p + 1 : info.name.Buffer; *p; p++)
		hash = (hash ^ (BYTE)(*p >= L'A' && *p <= L'Z' ? *p + 32 : *p)) * 16777619u;
	to[0] = 's';
	for (i = 0; i < 5; i++)
		to[1 + i] = digits[hash >> (16 - 4 * i) & 15];
	return TRUE;
}

/* Returns the value of WINEPREFIX with its last name replaced by that of the first job that is a silo with files of its own, and the name
 * that stood there. NULL: no job is. */
static char *enter_silo(const HANDLE *jobs, size_t count, char *before)
{
	char *value, *last, name[7] = { 0 };
	size_t i;

	value = count ? prefix_value() : NULL;
	for (i = 0; value && i < count; i++) {
		if (!silo_name(jobs[i], name))
			continue;
		last = value + strlen(value) - 6;
		memcpy(before, last, 6);
		memcpy(last, name, 6);
		if (!linux_call(SYS_ACCESS, (intptr_t)value, 0, 0, 0, 0))
			return last;
		memcpy(last, before, 6);
	}
	return NULL;
}

static NTSTATUS NTAPI create_user_process(HANDLE *process, HANDLE *thread, ULONG process_access, ULONG thread_access, OBJECT_ATTRIBUTES *process_attr,
					  OBJECT_ATTRIBUTES *thread_attr, ULONG process_flags, ULONG thread_flags, RTL_USER_PROCESS_PARAMETERS *params,
					  void *info, struct attributes *attributes)
{
	const HANDLE *jobs = NULL;
	size_t count = 0, i, n = attributes ? (attributes->size - sizeof attributes->size) / sizeof(struct attribute) : 0;
	char *entered, before[6];
	void *environment = NULL;
	NTSTATUS status = DIED_EARLY;
	HANDLE token = NULL;

	for (i = 0; i < n; i++)
		if (attributes->list[i].attribute == JOB_LIST) {
			jobs = (const HANDLE *)attributes->list[i].value;
			count = attributes->list[i].size / sizeof(HANDLE);
		} else if (attributes->list[i].attribute == TOKEN) {
			token = (HANDLE)attributes->list[i].value;
		}
	environment = user_environment(token, params);

	AcquireSRWLockExclusive(&lock);
	entered = enter_silo(jobs, count, before);
	for (i = 0; i < TRIES; i++) {
		status = ((create_process)original)(process, thread, process_access, thread_access, process_attr, thread_attr, process_flags,
						    thread_flags, params, info, attributes);
		if (status != DIED_EARLY)
			break;
	}
	if (entered)
		memcpy(entered, before, sizeof before);
	ReleaseSRWLockExclusive(&lock);
	user_environment_end(params, environment);
	return status;
}

struct mend process_mends[] = {
	{ "NtCreateUserProcess", "programs of silos see the host's files only, and users have no names", (void *)create_user_process, &original, NULL, FALSE },
	{ 0 },
};
