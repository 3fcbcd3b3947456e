/*
 * pdh.dll: the performance counters that a node's programs ask Windows for, from the figures of this machine. Wine's own pdh.dll has no
 * arrays of values, without which upstream's kubelet.exe does not start (k8s.io/kubernetes, pkg/kubelet/winstats).
 *
 *	\Processor(_Total)\% Processor Time     all processors, between two collections
 *	\Process(_Total)\Working Set - Private  what programs have of memory for themselves: AnonPages of /proc/meminfo
 *	\Memory\Committed Bytes                 CommitTotal of GetPerformanceInfo
 *	\Network Adapter(*)\...                 what GetIfTable2 says, one instance for each adapter
 *
 * Another path is an error with Windows' code for it.
 */
#include <winsock2.h>
#include <ws2ipdef.h>
#include <iphlpapi.h>
#include <windows.h>
#include <pdh.h>
#undef PdhOpenQuery /* Windows exports the bare name too */
#include <pdhmsg.h>
#include <psapi.h>
#include <stdlib.h>
#include <string.h>

#include "linux.h"

enum { NAME = 257 }; /* IF_MAX_STRING_SIZE and its end */

/* Calls of Linux (arch/x86/entry/syscalls/syscall_64.tbl). */
enum { CALL_READ = 0, CALL_OPEN = 2 };

enum kind { RAW, RATE, BUSY }; /* as it is; growth in a second; per cent of the time in which value did not grow as base did */

struct value {
	WCHAR name[NAME];
	ULONGLONG number, base;
};

struct sample {
	ULONGLONG when; /* 100 ns */
	UINT count;
	struct value *list;
};

struct source {
	const WCHAR *object, *instance, *name;
	enum kind kind;
	BOOL (*read)(const struct source *, struct sample *);
	UINT at; /* of an adapter's row: where the number is */
};

struct counter {
	struct counter *next;
	struct query *query;
	const struct source *source;
	struct sample now, before;
};

struct query {
	struct counter *first;
};

/* All calls are short: one lock is enough. */
static CRITICAL_SECTION lock;

static struct value *add(struct sample *s, const WCHAR *name)
{
	struct value *list = realloc(s->list, (s->count + 1) * sizeof *list);
	struct value *v;

	if (!list)
		return NULL;
	s->list = list;
	v = &list[s->count++];
	memset(v, 0, sizeof *v);
	lstrcpynW(v->name, name, NAME);
	return v;
}

static BOOL read_processors(const struct source *of, struct sample *s)
{
	FILETIME idle, kernel, user;
	struct value *v = add(s, of->instance);

	if (!v || !GetSystemTimes(&idle, &kernel, &user)) /* kernel contains idle */
		return FALSE;
	v->number = (ULONGLONG)idle.dwHighDateTime << 32 | idle.dwLowDateTime;
	v->base = ((ULONGLONG)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime) + ((ULONGLONG)user.dwHighDateTime << 32 | user.dwLowDateTime);
	return TRUE;
}

static BOOL read_committed(const struct source *of, struct sample *s)
{
	PERFORMANCE_INFORMATION info = {.cb = sizeof info};
	struct value *v = add(s, of->instance);

	if (!v || !K32GetPerformanceInfo(&info, sizeof info))
		return FALSE;
	v->number = (ULONGLONG)info.CommitTotal * info.PageSize;
	return TRUE;
}

static BOOL read_private(const struct source *of, struct sample *s)
{
	static const char name[] = "\nAnonPages:";
	char text[4096]; /* the file has some 1,500 bytes */
	struct value *v = add(s, of->instance);
	intptr_t file = linux_call(CALL_OPEN, (intptr_t)"/proc/meminfo", 0 /* O_RDONLY */, 0, 0, 0), size;
	const char *at;

	if (!v || file < 0)
		return FALSE;
	size = linux_call(CALL_READ, file, (intptr_t)text, sizeof text - 1, 0, 0);
	linux_call(SYS_CLOSE, file, 0, 0, 0, 0);
	if (size <= 0)
		return FALSE;
	text[size] = 0;
	if (!(at = strstr(text, name)))
		return FALSE;
	v->number = strtoull(at + sizeof name - 1, NULL, 10) * 1024;
	return TRUE;
}

/* An instance is called as the adapter is, without the characters that a path of a counter needs itself. */
static void instance_name(WCHAR *name)
{
	static const WCHAR from[] = L"()#/\\", to[] = L"[]___";
	const WCHAR *at;

	for (; *name; name++)
		if ((at = wcschr(from, *name)))
			*name = to[at - from];
}

static BOOL read_adapters(const struct source *of, struct sample *s)
{
	MIB_IF_TABLE2 *table;
	ULONG i;

	if (GetIfTable2(&table))
		return FALSE;
	for (i = 0; i < table->NumEntries; i++) {
		const MIB_IF_ROW2 *row = &table->Table[i];
		struct value *v;
		if (row->Type == IF_TYPE_SOFTWARE_LOOPBACK)
			continue;
		if (!(v = add(s, row->Description)))
			break;
		instance_name(v->name);
		v->number = *(const ULONG64 *)((const char *)row + of->at);
		if (of->at == offsetof(MIB_IF_ROW2, InUcastPkts))
			v->number += row->InNUcastPkts;
		if (of->at == offsetof(MIB_IF_ROW2, OutUcastPkts))
			v->number += row->OutNUcastPkts;
	}
	i = i < table->NumEntries;
	FreeMibTable(table);
	return !i;
}

#define ADAPTER(name, kind, field) {L"Network Adapter", L"*", name, kind, read_adapters, offsetof(MIB_IF_ROW2, field)}

static const struct source sources[] = {
	{L"Processor", L"_Total", L"% Processor Time", BUSY, read_processors, 0},
	{L"Process", L"_Total", L"Working Set - Private", RAW, read_private, 0},
	{L"Memory", L"", L"Committed Bytes", RAW, read_committed, 0},
	ADAPTER(L"Bytes Received/sec", RATE, InOctets),
	ADAPTER(L"Bytes Sent/sec", RATE, OutOctets),
	ADAPTER(L"Packets Received/sec", RATE, InUcastPkts),
	ADAPTER(L"Packets Sent/sec", RATE, OutUcastPkts),
	ADAPTER(L"Packets Received Discarded", RAW, InDiscards),
	ADAPTER(L"Packets Received Errors", RAW, InErrors),
	ADAPTER(L"Packets Outbound Discarded", RAW, OutDiscards),
	ADAPTER(L"Packets Outbound Errors", RAW, OutErrors),
};

/* Finds what a path names: \object(instance)\counter, or \object\counter. */
static PDH_STATUS find(const WCHAR *path, const struct source **found)
{
	WCHAR object[NAME], *instance = (WCHAR *)L"", *name, *end;
	PDH_STATUS status = PDH_CSTATUS_NO_OBJECT;
	size_t i;

	if (!path)
		return PDH_INVALID_ARGUMENT;
	if (path[0] != '\\' || path[1] == '\\' || wcslen(path) >= NAME) /* \\machine\... is of another machine */
		return PDH_CSTATUS_BAD_COUNTERNAME;
	wcscpy(object, path + 1);
	if (!(name = wcsrchr(object, '\\')))
		return PDH_CSTATUS_BAD_COUNTERNAME;
	*name++ = 0;
	if ((end = wcschr(object, '('))) {
		size_t length = wcslen(end);
		if (end[length - 1] != ')')
			return PDH_CSTATUS_BAD_COUNTERNAME;
		end[length - 1] = 0;
		*end = 0;
		instance = end + 1;
	}

	for (i = 0; i < sizeof sources / sizeof *sources; i++) {
		const struct source *s = &sources[i];
		if (lstrcmpiW(s->object, object))
			continue;
		if (lstrcmpiW(s->name, name)) {
			if (status == (PDH_STATUS)PDH_CSTATUS_NO_OBJECT)
				status = PDH_CSTATUS_NO_COUNTER;
			continue;
		}
		status = PDH_CSTATUS_NO_INSTANCE;
		if (lstrcmpiW(s->instance, instance))
			continue;
		*found = s;
		return ERROR_SUCCESS;
	}
	return status;
}

PDH_STATUS WINAPI PdhValidatePathW(LPCWSTR path)
{
	const struct source *found;

	return find(path, &found);
}

PDH_STATUS WINAPI PdhOpenQueryW(LPCWSTR file, DWORD_PTR user, PDH_HQUERY *query)
{
	(void)user;
	if (!query)
		return PDH_INVALID_ARGUMENT;
	if (file) /* a log that was written before */
		return PDH_LOG_FILE_OPEN_ERROR;
	*query = calloc(1, sizeof(struct query));
	return *query ? ERROR_SUCCESS : PDH_MEMORY_ALLOCATION_FAILURE;
}

/* The name that programs look up by themselves. */
PDH_STATUS WINAPI PdhOpenQuery(LPCWSTR file, DWORD_PTR user, PDH_HQUERY *query)
{
	return PdhOpenQueryW(file, user, query);
}

PDH_STATUS WINAPI PdhAddEnglishCounterW(PDH_HQUERY query, LPCWSTR path, DWORD_PTR user, PDH_HCOUNTER *counter)
{
	const struct source *source;
	struct query *q = query;
	struct counter *c;
	PDH_STATUS status;

	(void)user;
	if (!counter)
		return PDH_INVALID_ARGUMENT;
	if (!q)
		return PDH_INVALID_HANDLE;
	if ((status = find(path, &source)))
		return status;
	if (!(c = calloc(1, sizeof *c)))
		return PDH_MEMORY_ALLOCATION_FAILURE;
	c->source = source;
	c->query = q;
	EnterCriticalSection(&lock);
	c->next = q->first;
	q->first = c;
	LeaveCriticalSection(&lock);
	*counter = c;
	return ERROR_SUCCESS;
}

/* The system speaks English. */
PDH_STATUS WINAPI PdhAddCounterW(PDH_HQUERY query, LPCWSTR path, DWORD_PTR user, PDH_HCOUNTER *counter)
{
	return PdhAddEnglishCounterW(query, path, user, counter);
}

static void free_counter(struct counter *c)
{
	free(c->now.list);
	free(c->before.list);
	free(c);
}

PDH_STATUS WINAPI PdhRemoveCounter(PDH_HCOUNTER counter)
{
	struct counter *c = counter, **at;

	if (!c)
		return PDH_INVALID_HANDLE;
	EnterCriticalSection(&lock);
	for (at = &c->query->first; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	LeaveCriticalSection(&lock);
	free_counter(c);
	return ERROR_SUCCESS;
}

PDH_STATUS WINAPI PdhCloseQuery(PDH_HQUERY query)
{
	struct query *q = query;
	struct counter *c, *next;

	if (!q)
		return PDH_INVALID_HANDLE;
	for (c = q->first; c; c = next) {
		next = c->next;
		free_counter(c);
	}
	free(q);
	return ERROR_SUCCESS;
}

/* A counter whose figures cannot be read has none: no data, if that is so of all. */
PDH_STATUS WINAPI PdhCollectQueryData(PDH_HQUERY query)
{
	PDH_STATUS status = PDH_NO_DATA;
	struct query *q = query;
	struct counter *c;

	if (!q)
		return PDH_INVALID_HANDLE;
	EnterCriticalSection(&lock);
	for (c = q->first; c; c = c->next) {
		FILETIME when;
		free(c->before.list);
		c->before = c->now;
		memset(&c->now, 0, sizeof c->now);
		GetSystemTimePreciseAsFileTime(&when);
		c->now.when = (ULONGLONG)when.dwHighDateTime << 32 | when.dwLowDateTime;
		if (c->source->read(c->source, &c->now))
			status = ERROR_SUCCESS;
		else
			c->now.count = 0;
	}
	LeaveCriticalSection(&lock);
	return status;
}

static const struct value *same(const struct sample *s, const WCHAR *name)
{
	UINT i;

	for (i = 0; i < s->count; i++)
		if (!wcscmp(s->list[i].name, name))
			return &s->list[i];
	return NULL;
}

/* What an instance is at the last collection. A number that needs two collections and has one is invalid, as is one that went back. */
static DWORD compute(const struct counter *c, const struct value *now, double *result)
{
	const struct value *before = same(&c->before, now->name);
	double time = (double)(c->now.when - c->before.when) / 1e7;

	*result = 0;
	switch (c->source->kind) {
	case RAW:
		*result = (double)now->number;
		return PDH_CSTATUS_VALID_DATA;
	case RATE:
		if (!before || now->number < before->number || time <= 0)
			return PDH_CSTATUS_INVALID_DATA;
		*result = (double)(now->number - before->number) / time;
		return PDH_CSTATUS_VALID_DATA;
	case BUSY:
		if (!before || now->number < before->number || now->base < before->base)
			return PDH_CSTATUS_INVALID_DATA;
		if (now->base > before->base) /* else no time has passed */
			*result = 100.0 * (1 - (double)(now->number - before->number) / (double)(now->base - before->base));
		if (*result < 0)
			*result = 0;
		return PDH_CSTATUS_VALID_DATA;
	}
	return PDH_CSTATUS_INVALID_DATA;
}

static void format(const struct counter *c, const struct value *now, DWORD as, PDH_FMT_COUNTERVALUE *out)
{
	double number;

	out->CStatus = compute(c, now, &number);
	if (as & PDH_FMT_DOUBLE)
		out->doubleValue = number;
	else if (as & PDH_FMT_LARGE)
		out->largeValue = (LONGLONG)number;
	else
		out->longValue = (LONG)number;
}

static BOOL known_format(DWORD as)
{
	return (as & (PDH_FMT_DOUBLE | PDH_FMT_LARGE | PDH_FMT_LONG)) != 0;
}

PDH_STATUS WINAPI PdhGetFormattedCounterValue(PDH_HCOUNTER counter, DWORD as, LPDWORD type, PPDH_FMT_COUNTERVALUE out)
{
	PDH_STATUS status = PDH_INVALID_DATA;
	const struct counter *c = counter;

	if (!c)
		return PDH_INVALID_HANDLE;
	if (!out || !known_format(as))
		return PDH_INVALID_ARGUMENT;
	if (type)
		*type = c->source->kind == RAW ? PERF_COUNTER_LARGE_RAWCOUNT : c->source->kind == RATE ? PERF_COUNTER_BULK_COUNT : PERF_100NSEC_TIMER_INV;
	EnterCriticalSection(&lock);
	out->CStatus = PDH_CSTATUS_NO_INSTANCE;
	if (c->now.count)
		format(c, &c->now.list[0], as, out);
	if (out->CStatus == PDH_CSTATUS_VALID_DATA)
		status = ERROR_SUCCESS;
	LeaveCriticalSection(&lock);
	return status;
}

/* The names lie behind the values. Called with too little room it says how much is needed. */
PDH_STATUS WINAPI PdhGetFormattedCounterArrayW(PDH_HCOUNTER counter, DWORD as, LPDWORD size, LPDWORD count, PPDH_FMT_COUNTERVALUE_ITEM_W list)
{
	const struct counter *c = counter;
	PDH_STATUS status = PDH_MORE_DATA;
	DWORD needed, i;

	if (!c)
		return PDH_INVALID_HANDLE;
	if (!size || !count || !known_format(as))
		return PDH_INVALID_ARGUMENT;
	EnterCriticalSection(&lock);
	needed = c->now.count * sizeof *list;
	for (i = 0; i < c->now.count; i++)
		needed += (wcslen(c->now.list[i].name) + 1) * sizeof(WCHAR);
	if (list && *size >= needed) {
		WCHAR *name = (WCHAR *)(list + c->now.count);
		for (i = 0; i < c->now.count; i++) {
			list[i].szName = wcscpy(name, c->now.list[i].name);
			name += wcslen(name) + 1;
			format(c, &c->now.list[i], as, &list[i].FmtValue);
		}
		status = ERROR_SUCCESS;
	}
	*size = needed;
	*count = c->now.count;
	LeaveCriticalSection(&lock);
	return status;
}

BOOL WINAPI DllMain(HINSTANCE dll, DWORD reason, void *reserved)
{
	(void)reserved;
	if (reason == DLL_PROCESS_ATTACH) {
		DisableThreadLibraryCalls(dll);
		InitializeCriticalSection(&lock);
	}
	return TRUE;
}
