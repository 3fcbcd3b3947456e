/* The memory of a host that has one of its own (porthole host create --memory): what Wine says of the machine's is replaced by what hcsd
 * says of the host's (emulator/hcsd/serve/hostmemory_linux.go), once in a second. GlobalMemoryStatusEx, GetPerformanceInfo and
 * GetPhysicallyInstalledSystemMemory ask for both pieces of information. The limit of what can be committed is the memory: a host has no page
 * file. A host without a memory of its own has no such file. */
#include "mend.h"

static const WCHAR file[] = L"C:\\System Volume Information\\porthole-memory";

enum { BASIC_INFORMATION = 0, PERFORMANCE_INFORMATION_CLASS = 2 }; /* SYSTEM_INFORMATION_CLASS */
enum { PAGE = 4096 };

/* SYSTEM_BASIC_INFORMATION and SYSTEM_PERFORMANCE_INFORMATION, as far as they are changed here (winternl.h has neither). */
struct basic {
	ULONG unused, increment, page, pages, lowest, highest;
};

struct performance {
	BYTE unused[44];
	ULONG available, committed, limit, peak; /* pages */
};

static ULONGLONG number(const char **at)
{
	ULONGLONG n = 0;

	while (**at == ' ')
		(*at)++;
	for (; **at >= '0' && **at <= '9'; (*at)++)
		n = n * 10 + (ULONGLONG)(**at - '0');
	return n;
}

/* Reads the host's memory, in pages. FALSE: it has that of the machine. */
static BOOL read_memory(ULONG *whole, ULONG *committed)
{
	DWORD before = GetLastError(), size = 0; /* system calls leave it alone */
	HANDLE h = CreateFileW(file, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
	const char *at;
	char text[64];

	if (h != INVALID_HANDLE_VALUE) {
		if (!ReadFile(h, text, sizeof text - 1, &size, NULL))
			size = 0;
		CloseHandle(h);
	}
	SetLastError(before);
	text[size] = 0;
	at = text;
	*whole = (ULONG)(number(&at) / PAGE);
	*committed = (ULONG)(number(&at) / PAGE);
	if (*committed > *whole)
		*committed = *whole;
	return *whole > 0;
}

/* A file with the numbers of classes for which NtQuerySystemInformation shall fail, by which tests see what programs do on a host whose counters do.
 * Only those of counters can: programs do not start without the others. */
static const WCHAR faults[] = L"C:\\System Volume Information\\porthole-faults";

enum { PROCESSOR_PERFORMANCE = 8 };

BOOL question_fails(ULONG class)
{
	DWORD before, size = 0;
	const char *at;
	char text[64];
	HANDLE h;

	if (class != PERFORMANCE_INFORMATION_CLASS && class != PROCESSOR_PERFORMANCE)
		return FALSE;
	before = GetLastError();
	h = CreateFileW(faults, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
	if (h != INVALID_HANDLE_VALUE) {
		if (!ReadFile(h, text, sizeof text - 1, &size, NULL))
			size = 0;
		CloseHandle(h);
	}
	SetLastError(before);
	text[size] = 0;
	for (at = text; *at >= '0' && *at <= '9'; at += *at == ' ')
		if (number(&at) == class)
			return TRUE;
	return FALSE;
}

void memory_of_host(ULONG class, void *info, ULONG size)
{
	struct basic *b = info;
	struct performance *p = info;
	ULONG whole, committed;

	if (class == BASIC_INFORMATION && size >= sizeof *b && read_memory(&whole, &committed)) {
		b->highest = whole + b->lowest;
		b->pages = whole;
	} else if (class == PERFORMANCE_INFORMATION_CLASS && size >= sizeof *p && read_memory(&whole, &committed)) {
		p->available = whole - committed;
		p->committed = committed;
		p->limit = whole;
		if (p->peak < committed || p->peak > whole)
			p->peak = committed;
	}
}
