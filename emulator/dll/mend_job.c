/* Jobs. Wine counts the processes of a job, ends them, and tells a completion port of their ends; what else it is told it forgets, and of
 * statistics it has none. Here a program that makes a job (hcsshim for a HostProcess container: internal/jobobject) finds again what it has
 * set, and gets the sums of the job's processes. Of a process that has ended between two questions the last answer is counted. Limits of
 * processors and memory are kept, and limit nothing. */
#include "mend.h"

#include <stddef.h>
#include <string.h>

enum { BASIC_ACCOUNTING = 1, PROCESS_IDS = 3, EXTENDED_LIMIT = 9, CPU_RATE = 15, MEMORY_USAGE = 28, CREATE_SILO = 35, SILO_BASIC = 36,
       IO_ATTRIBUTION = 42 }; /* JOBOBJECTINFOCLASS (winnt.h; hcsshim, internal/winapi/jobobject.go) */
enum { MEMORY_COUNTERS = 3 }; /* PROCESSINFOCLASS: ProcessVmCounters */
enum { JOBS = 64, PROCESSES = 256 };

#define BAD_LENGTH ((NTSTATUS)0xC0000004)
#define BAD_PARAMETER ((NTSTATUS)0xC000000D)
#define DENIED ((NTSTATUS)0xC0000022)

typedef NTSTATUS(NTAPI *set_job)(HANDLE, ULONG, void *, ULONG);
typedef NTSTATUS(NTAPI *query_job)(HANDLE, ULONG, void *, ULONG, ULONG *);
typedef NTSTATUS(NTAPI *create_job)(HANDLE *, ULONG, const OBJECT_ATTRIBUTES *);
typedef NTSTATUS(NTAPI *query_process)(HANDLE, ULONG, void *, ULONG, ULONG *);

static void *set_original, *query_original, *create_original;

/* What one process of a job had used when it was last seen. */
struct usage {
	ULONG_PTR pid;
	ULONGLONG user, kernel; /* in 100 ns */
	BOOL seen;
};

/* What is known of a job beside Wine. A slot is used again when a job gets its handle. */
struct job {
	HANDLE handle;
	BOOL silo, limited;
	JOBOBJECT_EXTENDED_LIMIT_INFORMATION limit;
	ULONG cpu[2];	     /* JOBOBJECT_CPU_RATE_CONTROL_INFORMATION */
	ULONGLONG memory, peak; /* committed bytes */
	ULONGLONG user, kernel; /* of processes that have ended */
	struct usage processes[PROCESSES];
};

static struct job *jobs[JOBS]; /* the last ones */
static unsigned next;
static SRWLOCK lock = SRWLOCK_INIT;

/* Returns what is known of a job, with a new record if new_one says so or there is none; under lock. NULL: no memory. */
static struct job *job_of(HANDLE handle, BOOL new_one)
{
	struct job *j;
	unsigned i;

	for (i = 0; i < JOBS; i++)
		if (jobs[i] && jobs[i]->handle == handle) {
			if (new_one)
				memset(jobs[i], 0, sizeof *jobs[i]);
			jobs[i]->handle = handle;
			return jobs[i];
		}
	j = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *j);
	if (!j)
		return NULL;
	j->handle = handle;
	i = next++ % JOBS;
	if (jobs[i])
		HeapFree(GetProcessHeap(), 0, jobs[i]);
	jobs[i] = j;
	return j;
}

/* Reports whether a job is a silo, which it may have become by another handle of this process; under lock. */
static BOOL is_silo(struct job *j)
{
	NTSTATUS(NTAPI * same)(HANDLE, HANDLE) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtCompareObjects");
	unsigned i;

	for (i = 0; i < JOBS && same && !j->silo; i++)
		j->silo = jobs[i] && jobs[i]->silo && same(jobs[i]->handle, j->handle) == 0;
	return j->silo;
}

static NTSTATUS NTAPI create_job_object(HANDLE *handle, ULONG access, const OBJECT_ATTRIBUTES *attributes)
{
	NTSTATUS status = ((create_job)create_original)(handle, access, attributes);

	if (status == 0) { /* not one that exists under the name */
		AcquireSRWLockExclusive(&lock);
		job_of(*handle, TRUE);
		ReleaseSRWLockExclusive(&lock);
	}
	return status;
}

static NTSTATUS NTAPI set_information_job(HANDLE handle, ULONG class, void *info, ULONG size)
{
	NTSTATUS status = ((set_job)set_original)(handle, class, info, size);
	struct job *j;

	if (class != EXTENDED_LIMIT && class != CPU_RATE && class != CREATE_SILO && class != IO_ATTRIBUTION)
		return status;
	AcquireSRWLockExclusive(&lock);
	j = job_of(handle, FALSE);
	if (!j)
		status = STATUS_NO_MEMORY;
	else if (class == EXTENDED_LIMIT && STATUS_OK(status)) {
		memcpy(&j->limit, info, sizeof j->limit);
		j->limited = TRUE;
	} else if (class == CPU_RATE && size >= sizeof j->cpu) {
		memcpy(j->cpu, info, sizeof j->cpu);
		status = 0;
	} else if (class == CREATE_SILO) {
		j->silo = TRUE;
		status = 0;
	} else if (class == IO_ATTRIBUTION) {
		status = 0;
	}
	ReleaseSRWLockExclusive(&lock);
	return status;
}

/* Counts what a process has used. */
static void count(struct job *j, ULONG_PTR pid, struct usage *u)
{
	HANDLE process = OpenProcess(PROCESS_QUERY_INFORMATION, FALSE, (DWORD)pid);
	FILETIME created, ended, kernel, user;
	VM_COUNTERS memory = { 0 };

	u->seen = TRUE;
	if (!process)
		return;
	if (GetProcessTimes(process, &created, &ended, &kernel, &user)) {
		u->user = (ULONGLONG)user.dwHighDateTime << 32 | user.dwLowDateTime;
		u->kernel = (ULONGLONG)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime;
	}
	if (STATUS_OK(NtQueryInformationProcess(process, (PROCESSINFOCLASS)MEMORY_COUNTERS, &memory, sizeof memory, NULL)))
		j->memory += memory.PagefileUsage;
	CloseHandle(process);
}

/* Looks at the processes of a job; under lock. */
static void look(struct job *j)
{
	struct {
		ULONG assigned, listed;
		ULONG_PTR ids[PROCESSES];
	} list = { 0 };
	struct usage *u, *free_one;
	ULONG i;

	if (!STATUS_OK(((query_job)query_original)(j->handle, PROCESS_IDS, &list, sizeof list, NULL)))
		return;
	for (u = j->processes; u < j->processes + PROCESSES; u++)
		u->seen = FALSE;
	j->memory = 0;
	for (i = 0; i < list.listed; i++) {
		free_one = NULL;
		for (u = j->processes; u < j->processes + PROCESSES && u->pid != list.ids[i]; u++)
			if (!u->pid && !free_one)
				free_one = u;
		if (u == j->processes + PROCESSES)
			u = free_one;
		if (!u)
			continue;
		u->pid = list.ids[i];
		count(j, u->pid, u);
	}
	for (u = j->processes; u < j->processes + PROCESSES; u++)
		if (u->pid && !u->seen) {
			j->user += u->user;
			j->kernel += u->kernel;
			memset(u, 0, sizeof *u);
		}
	if (j->memory > j->peak)
		j->peak = j->memory;
}

static void add_times(const struct job *j, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION *to)
{
	const struct usage *u;

	to->TotalUserTime.QuadPart = (LONGLONG)j->user;
	to->TotalKernelTime.QuadPart = (LONGLONG)j->kernel;
	for (u = j->processes; u < j->processes + PROCESSES; u++) {
		to->TotalUserTime.QuadPart += (LONGLONG)u->user;
		to->TotalKernelTime.QuadPart += (LONGLONG)u->kernel;
	}
}

/* Answers one question about a job; under lock. */
static NTSTATUS answer(struct job *j, ULONG class, void *info, ULONG size, ULONG *length)
{
	ULONG needed = 0;

	switch (class) {
	case CPU_RATE:
		needed = sizeof j->cpu;
		break;
	case MEMORY_USAGE:
		needed = 2 * sizeof(ULONGLONG);
		break;
	case SILO_BASIC:
		if (!is_silo(j))
			return BAD_PARAMETER;
		needed = size;
		break;
	case IO_ATTRIBUTION:
		needed = sizeof(ULONG);
	}
	if (size < needed)
		return BAD_LENGTH;
	if (length)
		*length = size;

	if (class == MEMORY_USAGE) {
		look(j);
		memcpy(info, &j->memory, sizeof j->memory);
		memcpy((BYTE *)info + sizeof j->memory, &j->peak, sizeof j->peak);
	} else if (class == CPU_RATE) {
		memcpy(info, j->cpu, sizeof j->cpu);
	} else if (class == SILO_BASIC) {
		memset(info, 0, size);
	} else {
		memset((BYTE *)info + sizeof(ULONG), 0, size - sizeof(ULONG)); /* nothing was read or written, as far as is known */
	}
	return 0;
}

static NTSTATUS NTAPI query_information_job(HANDLE handle, ULONG class, void *info, ULONG size, ULONG *length)
{
	const BOOL ours = class == CPU_RATE || class == MEMORY_USAGE || class == SILO_BASIC || class == IO_ATTRIBUTION;
	NTSTATUS status = ours ? 0 : ((query_job)query_original)(handle, class, info, size, length);
	struct job *j;

	if (!handle || (!ours && class != BASIC_ACCOUNTING && class != EXTENDED_LIMIT) || !STATUS_OK(status))
		return status;
	AcquireSRWLockExclusive(&lock);
	j = job_of(handle, FALSE);
	if (!j)
		status = STATUS_NO_MEMORY;
	else if (ours)
		status = answer(j, class, info, size, length);
	else if (class == EXTENDED_LIMIT && j->limited && size >= sizeof j->limit)
		memcpy(info, &j->limit, sizeof j->limit);
	else if (class == BASIC_ACCOUNTING) {
		look(j);
		add_times(j, info);
	}
	ReleaseSRWLockExclusive(&lock);
	return status;
}

/* VM_COUNTERS_EX2, which Wine does not know, is VM_COUNTERS_EX and two more: the private part of the working set, and shared commit. */
enum { COUNTERS_EX = 12 * sizeof(SIZE_T), COUNTERS_EX2 = COUNTERS_EX + 2 * sizeof(SIZE_T), WORKING_SET = 4, PRIVATE = 11 };

BOOL memory_counters(void *original, HANDLE process, ULONG class, void *info, ULONG size, ULONG *length, NTSTATUS *status)
{
	SIZE_T *counters = info;

	if (class != MEMORY_COUNTERS || size < COUNTERS_EX2)
		return FALSE;
	*status = ((query_process)original)(process, class, info, COUNTERS_EX, NULL);
	if (!STATUS_OK(*status))
		return TRUE;
	counters[12] = counters[WORKING_SET] < counters[PRIVATE] ? counters[WORKING_SET] : counters[PRIVATE];
	counters[13] = 0;
	if (length)
		*length = COUNTERS_EX2;
	return TRUE;
}

typedef NTSTATUS(NTAPI *in_job)(HANDLE, HANDLE);

static void *in_job_original;

/* PROCESS_QUERY_LIMITED_INFORMATION is enough (Microsoft, IsProcessInJob); Wine wants more. */
static NTSTATUS NTAPI is_process_in_job(HANDLE process, HANDLE job)
{
	NTSTATUS status = ((in_job)in_job_original)(process, job);
	HANDLE full;

	if (status != DENIED)
		return status;
	full = OpenProcess(PROCESS_QUERY_INFORMATION, FALSE, GetProcessId(process));
	if (!full)
		return status;
	status = ((in_job)in_job_original)(full, job);
	CloseHandle(full);
	return status;
}

struct mend job_mends[] = {
	{ "NtCreateJobObject", "jobs forget what they are told", (void *)create_job_object, &create_original, NULL, FALSE },
	{ "NtSetInformationJobObject", "jobs cannot be silos", (void *)set_information_job, &set_original, NULL, FALSE },
	{ "NtQueryInformationJobObject", "jobs have no statistics", (void *)query_information_job, &query_original, NULL, FALSE },
	{ "NtIsProcessInJob", "handles with limited access cannot be asked for their job", (void *)is_process_in_job, &in_job_original, NULL, FALSE },
	{ 0 },
};
