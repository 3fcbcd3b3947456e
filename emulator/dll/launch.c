/* Starts the program of a container with its command line as it was given. Wine's loader gives a program that it starts
 * itself the full path as its first argument, CreateProcess does not.
 *
 *     porthole-launch.exe PROGRAM COMMANDLINE...     PROGRAM is a full path, in quotes if it has spaces; if it is "", Windows finds the program
 *
 * It lives as long as the program, passes an interruption on, writes the program's exit code to a file that the container's
 * runtime reads, and ends with it: Linux keeps the lowest 8 bits only. */
#include <windows.h>

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

int main(void)
{
	STARTUPINFOW start = { sizeof start };
	PROCESS_INFORMATION made;
	WCHAR *self, *program, *line;
	size_t length;
	DWORD code;

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
