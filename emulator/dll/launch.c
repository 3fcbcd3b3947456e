/* Starts the program of a container with its command line as it was given. Wine's loader gives a program that it starts
 * itself the full path as its first argument, CreateProcess does not.
 *
 *     porthole-launch.exe PROGRAM COMMANDLINE...     PROGRAM is a full path, in quotes if it has spaces; if it is "", Windows finds the program
 *
 * It lives as long as the program, passes an interruption on, writes the program's exit code to a file that the container's
 * runtime reads, and ends with it: Linux keeps the lowest 8 bits only. As long as it lives, other programs of the container
 * begin at once, see booted. */
#include <windows.h>
#include <winternl.h>

#define NOTIFICATION_EVENT 0 /* EVENT_TYPE, wdm.h */

NTSTATUS NTAPI NtCreateEvent(HANDLE *event, ACCESS_MASK access, const OBJECT_ATTRIBUTES *attributes, int type, BOOLEAN state);
NTSTATUS NTAPI NtSetEvent(HANDLE event, LONG *before);

#define NOT_FOUND 127 /* as a shell says it */

#define CODE_FILE L"\\\\?\\unix\\prefix\\exit-code" /* the Linux path /prefix/exit-code */

static HANDLE child;

/* rest skips one word of a command line and the spaces after it; *length is the word's without its quotes. */
static WCHAR *rest(WCHAR *line, WCHAR **word, size_t *length)
{
	WCHAR end = *line == '"' ? *line++ : ' ';

	*word = line;
	while (*line && *line != end)
		line++;
	*length = line - *word;
	if (*line)
		line++;
	while (*line == ' ')
		line++;
	return line;
}

/* A console tells all its programs of an event. Without one, Wine makes the event of a signal, which comes to the
 * container's first process alone; then a thread is made in the other that begins where the console's would: in kernelbase,
 * which lies at one address in all processes. Observed with Wine 8.0. */
static BOOL WINAPI pass_on(DWORD event)
{
	void *routine = (void *)GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), "CtrlRoutine");
	HANDLE thread;

	if (!GetConsoleCP() && routine && child) {
		thread = CreateRemoteThread(child, NULL, 0, (LPTHREAD_START_ROUTINE)routine, (void *)(UINT_PTR)event, 0, NULL);
		if (thread)
			CloseHandle(thread);
	}
	return TRUE;
}

/* keep writes the exit code as a decimal number without a sign. Without the file the container's runtime knows only the lowest 8 bits. */
static void keep(DWORD code)
{
	char digits[10];
	int at = sizeof digits;
	DWORD written;
	HANDLE file = CreateFileW(CODE_FILE, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);

	if (file == INVALID_HANDLE_VALUE)
		return;
	do
		digits[--at] = '0' + code % 10;
	while (code /= 10);
	WriteFile(file, digits + at, sizeof digits - at, &written, NULL);
	CloseHandle(file);
}

/* booted keeps the event by which programs know that wineboot has run, and sets it. Wine's loader runs wineboot in each program
 * that it starts, unless the event is there: then it waits for the event, five minutes at most (run_wineboot in
 * dlls/ntdll/unix/env.c of Wine 8.0). In a container wineboot is disabled and would never set the event, so that of two execs at
 * once the second waited for the first one's event. The handle is not closed: the event goes with its last handle. */
static void booted(void)
{
	static WCHAR name[] = L"\\KernelObjects\\__wineboot_event";
	UNICODE_STRING text = { sizeof name - sizeof *name, sizeof name, name };
	OBJECT_ATTRIBUTES attributes = { .Length = sizeof attributes, .ObjectName = &text, .Attributes = OBJ_OPENIF };
	HANDLE event;

	if (NtCreateEvent(&event, EVENT_ALL_ACCESS, &attributes, NOTIFICATION_EVENT, TRUE) >= 0)
		NtSetEvent(event, NULL); /* one that another program has made is not set */
}

int main(void)
{
	STARTUPINFOW start = { sizeof start };
	PROCESS_INFORMATION made;
	WCHAR *self, *program, *line;
	size_t length;
	DWORD code;

	booted(); /* before there is a program, which the container's runtime takes as the sign */
	line = rest(rest(GetCommandLineW(), &self, &length), &program, &length);
	program[length] = 0;
	SetConsoleCtrlHandler(pass_on, TRUE);
	if (!CreateProcessW(length ? program : NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &made))
		return NOT_FOUND;
	child = made.hProcess;
	CloseHandle(made.hThread);
	WaitForSingleObject(child, INFINITE);
	if (!GetExitCodeProcess(child, &code))
		return NOT_FOUND;
	keep(code);
	return (int)code;
}
