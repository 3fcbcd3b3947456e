/* The end of a process. A thread that ends its process asks wineserver to end the other threads, which happens wherever they are, also where
 * they hold a lock of Wine's own. If the thread that asks wants that lock, it waits for ever, and the process stays (Wine 8.0; seen with Go
 * programs, whose runtime interrupts threads all the time). So Linux ends the process when the call has taken too long. wineserver was told the
 * exit code by then. */
#include "mend.h"

#include "linux.h"

enum { SYS_TIMER_CREATE = 222, SYS_TIMER_SETTIME = 223, SYS_TIMER_DELETE = 226 }; /* arch/x86/entry/syscalls/syscall_64.tbl */
enum { CLOCK_MONOTONIC_ = 1, SIGEV_SIGNAL_ = 0, SIGKILL_ = 9 };			  /* include/uapi/linux/time.h, siginfo.h, signal.h */

/* A wineserver that works answers within milliseconds; beside two test suites on two processors no answer of over a second was seen. A pod
 * that is deleted has 30 s to end by default. */
enum { LONGEST = 20 /* seconds */ };

struct event { /* sigevent */
	UINT64 value;
	INT32 signal, notify;
	BYTE unused[48];
};

struct times { /* itimerspec */
	INT64 every, every_ns, first, first_ns;
};

static NTSTATUS(NTAPI *original)(HANDLE, NTSTATUS);

static NTSTATUS NTAPI terminate_process(HANDLE process, NTSTATUS code)
{
	struct event kill = { .signal = SIGKILL_, .notify = SIGEV_SIGNAL_ };
	struct times longest = { .first = LONGEST };
	INT32 timer;
	NTSTATUS status;

	if (process && process != GetCurrentProcess())
		return original(process, code);
	if (linux_call(SYS_TIMER_CREATE, CLOCK_MONOTONIC_, (intptr_t)&kill, (intptr_t)&timer, 0, 0))
		return original(process, code);
	linux_call(SYS_TIMER_SETTIME, timer, 0, (intptr_t)&longest, 0, 0);

	/* It comes back where only the other threads were to end: what DLLs do then may take its time. */
	status = original(process, code);
	linux_call(SYS_TIMER_DELETE, timer, 0, 0, 0, 0);
	return status;
}

struct mend exit_mends[] = {
	{ "NtTerminateProcess", "programs can hang at their end", (void *)terminate_process, (void **)&original, NULL, FALSE },
	{ 0 },
};
