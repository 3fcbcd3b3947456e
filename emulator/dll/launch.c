/* Starts the program of a container with its command line as it was given. Wine's loader gives a program that it starts
 * itself the full path as its first argument, CreateProcess does not.
 *
 *     porthole-launch.exe /run N                     what files named N in the container's folder for programs say (hosted)
 *     porthole-launch.exe /console N                 the same, on the console that the former has made for it (on_console)
 *
 * It lives as long as the program, passes an interruption on, writes the program's exit code to a file that the container's
 * runtime reads, and ends with it: Linux keeps the lowest 8 bits only. As long as it lives, other programs of the container
 * begin at once, see booted. */
#define NTDDI_VERSION 0x0a000006 /* Windows 10 1809: consoles of one's own making */
#define _WIN32_WINNT 0x0a00
#include <windows.h>
#include <winternl.h>

#define NOTIFICATION_EVENT 0 /* EVENT_TYPE, wdm.h */

NTSTATUS NTAPI NtCreateEvent(HANDLE *event, ACCESS_MASK access, const OBJECT_ATTRIBUTES *attributes, int type, BOOLEAN state);
NTSTATUS NTAPI NtSetEvent(HANDLE event, LONG *before);

#define NOT_FOUND 127 /* as a shell says it */

#define CLOSE_MS 5000 /* that a program of a closed console has to end by itself: HungAppTimeout of Windows */

#define RUN L"\\\\?\\unix\\prefix\\run\\" /* the Linux folder /prefix/run, for programs that the Host Compute Service starts */

static HANDLE child;
static const WCHAR *number; /* of the program that it starts for the Host Compute Service */
static HPCON console;	    /* that it has made; NULL: none */
static CRITICAL_SECTION taking;

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

/* path_of names one of the files of the program: RUN, the number and what. */
static void path_of(WCHAR *path, const WCHAR *what)
{
	lstrcpyW(path, RUN);
	lstrcatW(path, number);
	lstrcatW(path, what);
}

/* read_run reads a file of the program into text and returns its bytes; 0: there is none, or it is empty. */
static DWORD read_run(const WCHAR *what, void *text, DWORD size)
{
	WCHAR path[MAX_PATH];
	DWORD n = 0;
	HANDLE file;

	path_of(path, what);
	file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return 0;
	if (!ReadFile(file, text, size, &n, NULL))
		n = 0;
	CloseHandle(file);
	return n;
}

/* take reads a file of the program that holds size bytes, and removes it. FALSE: there is none. Each file is taken once: it is renamed first,
 * so that none is lost that is written meanwhile. */
static BOOL take(const WCHAR *what, void *text, DWORD size)
{
	WCHAR path[MAX_PATH], taken[MAX_PATH];
	BOOL ok;

	path_of(path, what);
	path_of(taken, L".taken");
	EnterCriticalSection(&taking);
	ok = MoveFileExW(path, taken, MOVEFILE_REPLACE_EXISTING) && read_run(L".taken", text, size) == size;
	LeaveCriticalSection(&taking);
	return ok;
}

/* asked_event is the console event that the Host Compute Service wants, which has written its number and then sent a signal. */
static BOOL asked_event(DWORD *event)
{
	char digit;

	if (!take(L".event", &digit, 1) || digit < '0' || digit > '9')
		return FALSE;
	*event = digit - '0';
	return TRUE;
}

/* open_console opens one side of our console. */
static HANDLE open_console(const WCHAR *side)
{
	SECURITY_ATTRIBUTES inherited = { sizeof inherited, NULL, TRUE };

	return CreateFileW(side, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited, OPEN_EXISTING, 0, NULL);
}

/* resize gives our console the size that the Host Compute Service wants, if it wants another. ResizePseudoConsole is not implemented in
 * Wine 8.0. A buffer cannot be smaller than its window, so that the window shrinks first. */
static void resize(void)
{
	CONSOLE_SCREEN_BUFFER_INFO now;
	SMALL_RECT window = { 0 };
	HANDLE screen;
	COORD size;

	if (!take(L".size", &size, sizeof size))
		return;
	screen = open_console(L"CONOUT$");
	if (screen == INVALID_HANDLE_VALUE)
		return;
	if (GetConsoleScreenBufferInfo(screen, &now)) {
		window.Right = min(now.dwSize.X, size.X) - 1;
		window.Bottom = min(now.dwSize.Y, size.Y) - 1;
		SetConsoleWindowInfo(screen, TRUE, &window);
		SetConsoleScreenBufferSize(screen, size);
		window.Right = size.X - 1;
		window.Bottom = size.Y - 1;
		SetConsoleWindowInfo(screen, TRUE, &window);
	}
	CloseHandle(screen);
}

/* interrupt types an interruption on our console, if its user has: at one that comes from a terminal conhost.exe of Wine 8.0 ends. What an
 * interruption does is up to the mode of the console. */
static void interrupt(void)
{
	INPUT_RECORD key = { KEY_EVENT, .Event.KeyEvent = { TRUE, 1, 'C', 0, { 3 }, LEFT_CTRL_PRESSED } };
	HANDLE keyboard;
	DWORD n;
	char byte;

	if (!take(L".typed", &byte, 1))
		return;
	keyboard = open_console(L"CONIN$");
	if (keyboard == INVALID_HANDLE_VALUE)
		return;
	WriteConsoleInputW(keyboard, &key, 1, &n);
	key.Event.KeyEvent.bKeyDown = FALSE;
	WriteConsoleInputW(keyboard, &key, 1, &n);
	CloseHandle(keyboard);
}

/* closed outlives the end of our console, with which all its programs end: main keeps the exit code. */
static void closed(void)
{
	if (WaitForSingleObject(child, CLOSE_MS) == WAIT_TIMEOUT)
		TerminateProcess(child, (UINT)STATUS_CONTROL_C_EXIT);
	Sleep(INFINITE);
}

/* A console tells all its programs of an event. Without one, Wine makes the event of a signal, which comes to the
 * container's first process alone; then a thread is made in the other that begins where the console's would: in kernelbase,
 * which lies at one address in all processes. Observed with Wine 8.0.
 *
 * A signal of the Host Compute Service means what its files say. What a user types on our console comes here too, without a file: all
 * programs of the console are told of it in any case. */
static BOOL WINAPI pass_on(DWORD event)
{
	void *routine = (void *)GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), "CtrlRoutine");
	HANDLE thread;

	if (number && !console) {
		resize();
		interrupt();
		if (!asked_event(&event)) {
			if (event == CTRL_CLOSE_EVENT)
				closed();
			return TRUE;
		}
	}
	if (routine && child) {
		thread = CreateRemoteThread(child, NULL, 0, (LPTHREAD_START_ROUTINE)routine, (void *)(UINT_PTR)event, 0, NULL);
		if (thread)
			CloseHandle(thread);
	}
	return TRUE;
}

/* write_number writes a decimal number without a sign, and the end of a line. */
static void write_number(const WCHAR *path, DWORD code)
{
	char digits[11];
	int at = sizeof digits;
	DWORD written;
	HANDLE file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);

	if (file == INVALID_HANDLE_VALUE)
		return;
	digits[--at] = '\n';
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

/* keep writes the exit code. Without the file the container's runtime knows only the lowest 8 bits. */
static void keep(DWORD code)
{
	WCHAR path[MAX_PATH];

	path_of(path, L".exit");
	write_number(path, code);
}

/* say tells the Host Compute Service that the program runs (0), or why it does not (an error of Windows). */
static void say(DWORD error)
{
	WCHAR path[MAX_PATH];

	path_of(path, L".started");
	write_number(path, error);
}

/* set_variables makes our environment that of the program: Windows' variables without what Wine and we have in it, and over them those of
 * N.env, each NAME=VALUE ended by a zero, with another zero behind the last. */
static void set_variables(void)
{
	static const WCHAR *const others[] = { L"FONTCONFIG_FILE", L"LC_ALL" };
	WCHAR *all = GetEnvironmentStringsW(), *p, *value, *text, path[MAX_PATH];
	const int length = 4; /* of WINE */
	HANDLE file;
	DWORD size, n;

	for (p = all; p && *p; p += lstrlenW(p) + 1)
		for (value = p + 1; CompareStringOrdinal(p, length, L"WINE", length, TRUE) == CSTR_EQUAL && *value; value++)
			if (*value == '=') {
				*value = 0;
				SetEnvironmentVariableW(p, NULL);
				*value = '=';
				break;
			}
	for (n = 0; n < sizeof others / sizeof *others; n++)
		SetEnvironmentVariableW(others[n], NULL);
	path_of(path, L".env");
	file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return;
	size = GetFileSize(file, NULL);
	text = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, size + 2 * sizeof *text);
	if (text && ReadFile(file, text, size, &n, NULL))
		for (p = text; *p; p = value + lstrlenW(value) + 1) {
			for (value = p + 1; *value && *value != '='; value++)
				;
			if (*value)
				*value++ = 0;
			SetEnvironmentVariableW(p, value);
		}
	CloseHandle(file);
}

/* end_with_us makes the program end with the launcher, but not what the program starts. */
static void end_with_us(HANDLE process)
{
	JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = { .BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK };
	HANDLE job = CreateJobObjectW(NULL, NULL); /* not closed: it goes with the launcher */

	if (job && SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits))
		AssignProcessToJobObject(job, process);
}

/* on_console starts the launcher once more, on a console of the wanted size whose terminal are our standard streams. That one starts the
 * program: only what is on a console can open it and change its size. */
static BOOL on_console(COORD size, PROCESS_INFORMATION *made)
{
	char attributes[256];
	SIZE_T bytes = sizeof attributes;
	STARTUPINFOEXW start = { .StartupInfo.cb = sizeof start, .lpAttributeList = (void *)attributes };
	WCHAR self[MAX_PATH], line[64] = L"porthole-launch.exe /console ";
	HRESULT hr = CreatePseudoConsole(size, GetStdHandle(STD_INPUT_HANDLE), GetStdHandle(STD_OUTPUT_HANDLE), 0, &console);

	if (FAILED(hr)) {
		say(HRESULT_CODE(hr));
		return FALSE;
	}
	lstrcatW(line, number);
	if (!GetModuleFileNameW(NULL, self, MAX_PATH) || !InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &bytes) ||
	    !UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, console, sizeof console, NULL, NULL) ||
	    !CreateProcessW(self, line, NULL, NULL, FALSE, EXTENDED_STARTUPINFO_PRESENT, NULL, NULL, &start.StartupInfo, made)) {
		say(GetLastError());
		return FALSE;
	}
	end_with_us(made->hProcess);
	return TRUE;
}

/* use_console makes our console our standard streams, which the program inherits. */
static void use_console(void)
{
	static const DWORD streams[] = { STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE };
	int i;

	for (i = 0; i < 3; i++) {
		CloseHandle(GetStdHandle(streams[i]));
		SetStdHandle(streams[i], open_console(i == 0 ? L"CONIN$" : L"CONOUT$"));
	}
}

/* start_program starts a program, and again if its Linux process ended before the program's first instruction: see mend_process.c. */
static BOOL start_program(const WCHAR *program, WCHAR *line, DWORD flags, const WCHAR *folder, PROCESS_INFORMATION *made)
{
	STARTUPINFOW start = { sizeof start };
	int tries;

	for (tries = 0; tries < 3; tries++)
		if (CreateProcessW(program, line, NULL, NULL, TRUE, flags, NULL, folder, &start, made))
			return TRUE;
		else if (GetLastError() != ERROR_INTERNAL_ERROR)
			break;
	return FALSE;
}

#define LINE 40000 /* characters: a command line of Windows has at most 32767 */

/* hosted starts the program that N.line describes: program, command line and folder, each ended by a zero. */
static BOOL hosted(PROCESS_INFORMATION *made)
{
	static WCHAR text[LINE];
	WCHAR *program = text, *line, *folder;
	DWORD attributes;

	if (read_run(L".line", text, sizeof text - 3 * sizeof *text) == 0)
		return FALSE;
	line = program + lstrlenW(program) + 1;
	folder = line + lstrlenW(line) + 1;
	set_variables();
	attributes = GetFileAttributesW(folder); /* Wine does not look */
	if (attributes == INVALID_FILE_ATTRIBUTES || !(attributes & FILE_ATTRIBUTE_DIRECTORY)) {
		say(ERROR_DIRECTORY);
		return FALSE;
	}
	if (!start_program(*program ? program : NULL, line, CREATE_SUSPENDED, folder, made)) {
		say(GetLastError());
		return FALSE;
	}
	end_with_us(made->hProcess);
	child = made->hProcess;
	ResumeThread(made->hThread);
	say(0);
	return TRUE;
}

#define TOLD_MS 10000 /* that the file of the program may take to come */

/* told returns when the file is there that says which program is to be started: the Host Compute Service writes it, after all others, when the
 * launcher is in the container's cgroups. That takes less time than Wine's start of the launcher, as a rule. */
static BOOL told(void)
{
	ULONGLONG last = GetTickCount64() + TOLD_MS;
	WCHAR path[MAX_PATH];

	path_of(path, L".line");
	while (GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES) {
		if (GetTickCount64() > last)
			return FALSE;
		Sleep(1);
	}
	return TRUE;
}

/* begin starts what the command line of the launcher says; FALSE: it could not be started. */
static BOOL begin(PROCESS_INFORMATION *made)
{
	WCHAR *word;
	size_t length;
	COORD size;

	number = rest(rest(GetCommandLineW(), &word, &length), &word, &length);
	word[length] = 0;
	if (!told())
		return FALSE;
	if (lstrcmpW(word, L"/run") == 0)
		return read_run(L".console", &size, sizeof size) == sizeof size ? on_console(size, made) : hosted(made);
	if (lstrcmpW(word, L"/console") != 0)
		return FALSE;
	use_console();
	return hosted(made);
}

int main(void)
{
	PROCESS_INFORMATION made;
	DWORD code;

	InitializeCriticalSection(&taking);
	booted(); /* before there is a program, which the container's runtime takes as the sign */
	SetConsoleCtrlHandler(pass_on, TRUE);
	if (!begin(&made))
		return NOT_FOUND;
	child = made.hProcess;
	CloseHandle(made.hThread);
	WaitForSingleObject(child, INFINITE);
	if (console) {
		ClosePseudoConsole(console); /* returns when everything is written */
		return 0;		     /* the one on the console has kept the code */
	}
	if (!GetExitCodeProcess(child, &code))
		return NOT_FOUND;
	keep(code);
	return (int)code;
}
