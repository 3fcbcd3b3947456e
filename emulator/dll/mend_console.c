/* Consoles. containerd.exe, as a service, allocates one that its children inherit, and ends if it gets none. A program that Wine starts
 * from Linux has none either, but Wine's AllocConsole takes its place of a console for one and refuses. */
#include "mend.h"

#define CONSOLE_HANDLE 0x10 /* where RTL_USER_PROCESS_PARAMETERS has it, on x64 */
#define NO_WINDOW ((LONG_PTR)-4) /* Wine 8.0 include/wine/condrv.h: CONSOLE_HANDLE_SHELL_NO_WINDOW */

PEB *NTAPI RtlGetCurrentPeb(void);

static void *original;

/* Succeeds without a console where Wine has only the place of one: nobody would see its window. */
static BOOL WINAPI alloc_console(void)
{
	const BYTE *parameters = (const BYTE *)RtlGetCurrentPeb()->ProcessParameters;

	if (*(const LONG_PTR *)(parameters + CONSOLE_HANDLE) == NO_WINDOW)
		return TRUE;
	return ((BOOL(WINAPI *)(void))original)();
}

static BOOL always(void) { return TRUE; }

struct mend console_mends[] = {
	{ "AllocConsole", "programs without a terminal get no console", (void *)alloc_console, &original, always, FALSE },
	{ 0 },
};
