/* Short sleeps of Go's runtime. It sleeps by a timer of high resolution that each of its threads has (runtime/os_windows.go, usleep): it sets
 * the timer and waits for it. Windows' kernel does that by itself; Wine asks wineserver for both, and wineserver wakes the thread, so that
 * a program that has anything to do keeps it busy: sysmon of the runtime looks around up to 50,000 times in a second. Here the thread sleeps
 * without it, and by a clock that is not adjusted: Wine counts by the machine's wall clock, and wakes a thread too soon when that is set
 * forward. */
#include "mend.h"

#include "linux.h"

/* What the runtime asks for: createHighResTimer in runtime/os_windows.go of Go 1.26. */
#define HIGH_RESOLUTION 2 /* CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, synchapi.h */
#define RUNTIME_ACCESS (SYNCHRONIZE | TIMER_QUERY_STATE | TIMER_MODIFY_STATE)

/* Of Linux: time.h. */
enum { LINUX_CLOCK_MONOTONIC = 1 };
#define PER_SECOND 10000000 /* of the units of Windows, 100 ns */

/* State of the handles up to a limit, by their number; handles of Windows are multiples of 4. A handle beyond it is Wine's matter. */
enum { OTHER, TIMER, SET };
static struct {
	LONG state;
	LONGLONG interval; /* of a timer that is SET, in 100 ns: until it is waited for, by the same thread */
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
	timers[at].interval = -due->QuadPart;
	timers[at].state = SET;
	return TRUE;
}

static DWORD WINAPI wait_for(HANDLE handle, DWORD ms)
{
	size_t at = place_of(handle);
	struct {
		int64_t seconds, nanoseconds;
	} left; /* struct timespec; a signal leaves there what is left */

	if (at >= COUNT(timers) || timers[at].state != SET || ms != INFINITE)
		return wait(handle, ms);
	timers[at].state = TIMER;
	left.seconds = timers[at].interval / PER_SECOND;
	left.nanoseconds = timers[at].interval % PER_SECOND * 100;
	linux_again(SYS_CLOCK_NANOSLEEP, LINUX_CLOCK_MONOTONIC, 0, (intptr_t)&left, (intptr_t)&left, 0);
	return WAIT_OBJECT_0;
}

static BOOL always(void) { return TRUE; }

struct mend sleep_mends[] = {
	{ "CreateWaitableTimerExW", "short sleeps of Go go through wineserver", (void *)create_timer, (void **)&create, always, FALSE },
	{ "SetWaitableTimer", "short sleeps of Go go through wineserver", (void *)set_timer, (void **)&set, always, FALSE },
	{ "WaitForSingleObject", "short sleeps of Go go through wineserver", (void *)wait_for, (void **)&wait, always, FALSE },
	{ 0 },
};
