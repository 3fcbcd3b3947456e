/* Short sleeps of Go's runtime. It sleeps by a timer of high resolution that each of its threads has (runtime/os_windows.go, usleep): it sets
 * the timer and waits for it. Windows' kernel does that by itself; Wine asks wineserver for both, and wineserver wakes the thread, so that
 * a program that has anything to do keeps it busy: sysmon of the runtime looks around up to 50,000 times in a second. Here the thread sleeps
 * without it. */
#include "mend.h"

/* What the runtime asks for: createHighResTimer in runtime/os_windows.go of Go 1.26. */
#define HIGH_RESOLUTION 2 /* CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, synchapi.h */
#define RUNTIME_ACCESS (SYNCHRONIZE | TIMER_QUERY_STATE | TIMER_MODIFY_STATE)

NTSTATUS NTAPI NtDelayExecution(BOOLEAN alertable, const LARGE_INTEGER *interval);

/* State of the handles up to a limit, by their number; handles of Windows are multiples of 4. A handle beyond it is Wine's matter. */
enum { OTHER, TIMER, SET };
static struct {
	LONG state;
	LARGE_INTEGER interval; /* of a timer that is SET: until it is waited for, by the same thread */
} timers[4096];

static HANDLE(WINAPI *create)(SECURITY_ATTRIBUTES *, const WCHAR *, DWORD, DWORD);
static BOOL(WINAPI *set)(HANDLE, const LARGE_INTEGER *, LONG, PTIMERAPCROUTINE, void *, BOOL);
static DWORD(WINAPI *wait)(HANDLE, DWORD);

static size_t place_of(HANDLE handle) { return (size_t)handle / 4; }

static HANDLE WINAPI create_timer(SECURITY_ATTRIBUTES *security, const WCHAR *name, DWORD flags, DWORD access)
{
	HANDLE timer = create(security, name, flags, access);
	size_t at = place_of(timer);

	if (timer && at < COUNT(timers))
		timers[at].state = !name && flags == HIGH_RESOLUTION && access == RUNTIME_ACCESS ? TIMER : OTHER;
	return timer;
}

static BOOL WINAPI set_timer(HANDLE timer, const LARGE_INTEGER *due, LONG period, PTIMERAPCROUTINE routine, void *argument, BOOL resume)
{
	size_t at = place_of(timer);

	if (at >= COUNT(timers) || timers[at].state == OTHER || period || routine || due->QuadPart >= 0)
		return set(timer, due, period, routine, argument, resume);
	timers[at].interval = *due;
	timers[at].state = SET;
	return TRUE;
}

static DWORD WINAPI wait_for(HANDLE handle, DWORD ms)
{
	size_t at = place_of(handle);

	if (at >= COUNT(timers) || timers[at].state != SET || ms != INFINITE)
		return wait(handle, ms);
	timers[at].state = TIMER;
	NtDelayExecution(FALSE, &timers[at].interval);
	return WAIT_OBJECT_0;
}

static BOOL always(void) { return TRUE; }

struct mend sleep_mends[] = {
	{ "CreateWaitableTimerExW", "short sleeps of Go go through wineserver", (void *)create_timer, (void **)&create, always, FALSE },
	{ "SetWaitableTimer", "short sleeps of Go go through wineserver", (void *)set_timer, (void **)&set, always, FALSE },
	{ "WaitForSingleObject", "short sleeps of Go go through wineserver", (void *)wait_for, (void **)&wait, always, FALSE },
	{ 0 },
};
