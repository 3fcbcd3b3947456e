/* The end of a process, in which Wine can go wrong twice.
 *
 * A thread that ends its process asks wineserver to end the other threads, which happens wherever they are, also where
 * they hold a lock of Wine's own. If the thread that asks wants that lock, it waits for ever, and the process stays (Wine 8.0; seen with Go
 * programs, whose runtime interrupts threads all the time). So Linux ends the process when the call has taken too long. wineserver was told the
 * exit code by then.
 *
 * A process can end with 0 in the place of the code that the thread gave, if another thread ends at the same time. Then wineserver's
 * SIGQUIT meets a thread that Wine has taken from its count of threads already, and takes from it again: when that gives 0, the
 * process ends at once, and Linux never learns the code (Wine 10.0, 21 of 100 runs of wine/testdata/exitcode; 8.0 never). A thread that
 * ends itself needs no signal. */
#include "mend.h"

#include "linux.h"

enum { SYS_RT_SIGPROCMASK = 14, SYS_TIMER_CREATE = 222, SYS_TIMER_SETTIME = 223, SYS_TIMER_DELETE = 226 }; /* arch/x86/entry/syscalls/syscall_64.tbl */
enum { CLOCK_MONOTONIC_ = 1, SIGEV_SIGNAL_ = 0, SIGKILL_ = 9 };			  /* include/uapi/linux/time.h, siginfo.h, signal.h */
enum { SIG_BLOCK_ = 0, SIGQUIT_ = 3 };					  /* include/uapi/asm-generic/signal*.h */

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

static NTSTATUS(NTAPI *original)(HANDLE, NTSTATUS), (NTAPI *original_thread)(HANDLE, NTSTATUS);

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

/* A thread that ends itself blocks the signal by which wineserver would end it. */
static NTSTATUS NTAPI terminate_thread(HANDLE thread, NTSTATUS code)
{
	UINT64 quit = 1 << (SIGQUIT_ - 1);

	if (thread == GetCurrentThread())
		linux_call(SYS_RT_SIGPROCMASK, SIG_BLOCK_, (intptr_t)&quit, 0, sizeof quit, 0);
	return original_thread(thread, code);
}

struct mend exit_mends[] = {
	{ "NtTerminateProcess", "programs can hang at their end", (void *)terminate_process, (void **)&original, NULL, FALSE },
	{ "NtTerminateThread", "the exit code can be lost", (void *)terminate_thread, (void **)&original_thread, NULL, FALSE },
	{ 0 },
};
