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

/* What a program does not handle of the events of a console ends it with this code; Wine's own last handler ends it with 0. The handlers that
 * are registered later come before it. */
static BOOL WINAPI last_handler(DWORD event)
{
	(void)event;
	ExitProcess((UINT)STATUS_CONTROL_C_EXIT);
	return TRUE;
}

/* Go's runtime loads this library before it registers a handler. A program that has loaded it by ws2_32.dll may have handlers already, which
 * would come too late. */
void console_begin(void)
{
	if (!GetModuleHandleW(L"ws2_32.dll"))
		SetConsoleCtrlHandler(last_handler, TRUE);
}

static BOOL always(void) { return TRUE; }

struct mend console_mends[] = {
	{ "AllocConsole", "programs without a terminal get no console", (void *)alloc_console, &original, always, FALSE },
	{ 0 },
};
