/* Gives back the stack that Wine clears: Wine 8.0 writes zeros to 0.94 MB of each thread's stack before the thread begins
 * (signal_start_thread of ntdll), where Windows commits a stack as it grows. Programs in Go have a dozen threads or more. */
#include <windows.h>

#include "linux.h"
#include "stack.h"

#define TEB_STACK_BOTTOM 0x1478 /* DeallocationStack (winternl.h) */
#define PAGE 0x1000
#define IN_USE (8 * PAGE) /* below where we are: more than any call from here needs */

#define LINUX_DONTNEED 4 /* MADV_DONTNEED (include/uapi/asm-generic/mman-common.h) */

static void CALLBACK give_back(ULONG_PTR unused)
{
	uintptr_t bottom;
	uintptr_t end = ((uintptr_t)__builtin_frame_address(0) - IN_USE) & ~(uintptr_t)(PAGE - 1);

	(void)unused;
	__asm__("movq %%gs:%c1, %0" : "=r"(bottom) : "i"(TEB_STACK_BOTTOM));
	if (bottom < end)
		linux_call(SYS_MADVISE, bottom, end - bottom, LINUX_DONTNEED, 0, 0); /* what fails changes nothing */
}

/* The call comes when the stack is cleared and the thread's own code has not begun. */
void stack_begins(void) { QueueUserAPC(give_back, GetCurrentThread(), 0); }
