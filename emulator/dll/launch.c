/* Starts a program with its command line as it was given. Wine's loader gives a program that it starts itself the full
 * path as its first argument, CreateProcess does not.
 *
 *     porthole-launch.exe PROGRAM COMMANDLINE...     PROGRAM is a full path, and in quotes if it has spaces
 *
 * It lives as long as the program, passes an interruption on and ends with the program's exit code. */
#include <windows.h>

#define NOT_FOUND 127 /* as a shell says it: exit codes keep their lowest 8 bits here */

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
	if (!CreateProcessW(program, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &made))
		return NOT_FOUND;
	child = made.hProcess;
	CloseHandle(made.hThread);
	WaitForSingleObject(child, INFINITE);
	return GetExitCodeProcess(child, &code) ? (int)code : NOT_FOUND;
}
