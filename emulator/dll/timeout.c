/* timeout.exe, which Wine 8.0 has not: waits for a number of seconds, or for a key. Like Windows' it refuses to wait without a console. The
 * words are those of learn.microsoft.com, timeout. */
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 99999, EACH_MS = 1000 };

static int refuse(const char *why)
{
	fprintf(stderr, "ERROR: %s\nType \"TIMEOUT /?\" for usage.\n", why);
	return 1;
}

static int usage(void)
{
	puts("TIMEOUT [/T] timeout [/NOBREAK]\n\nParameter List:\n    /T        timeout       Specifies the number of seconds to wait. Valid range is -1 to 99999 seconds.\n"
	     "    /NOBREAK                Ignore key presses and wait specified time.\n    /?                      Displays this help message.");
	return 0;
}

/* Takes what was typed. Returns whether a key was pressed. */
static BOOL key_pressed(HANDLE console)
{
	INPUT_RECORD record;
	BOOL pressed = FALSE;
	DWORD n;

	while (GetNumberOfConsoleInputEvents(console, &n) && n && ReadConsoleInputW(console, &record, 1, &n))
		pressed = pressed || (record.EventType == KEY_EVENT && record.Event.KeyEvent.bKeyDown);
	return pressed;
}

/* Waits for the seconds; -1: for a key. */
static void wait_for(long seconds, BOOL nobreak, HANDLE console)
{
	ULONGLONG begin = GetTickCount64(), now;

	if (seconds < 0)
		fputs("\nPress any key to continue ...", stdout);
	for (now = begin; seconds < 0 || now - begin < (ULONGLONG)seconds * EACH_MS; now = GetTickCount64()) {
		long left = seconds - (long)((now - begin) / EACH_MS);

		if (seconds >= 0)
			printf("\rWaiting for %ld seconds, press %s ...", left, nobreak ? "CTRL+C to quit" : "a key to continue");
		fflush(stdout);
		if (nobreak)
			Sleep((DWORD)min((ULONGLONG)EACH_MS, (ULONGLONG)seconds * EACH_MS - (now - begin)));
		else if (WaitForSingleObject(console, seconds < 0 ? INFINITE : EACH_MS) == WAIT_OBJECT_0 && key_pressed(console))
			break;
	}
	puts("");
}

int main(int argc, char **argv)
{
	HANDLE console = GetStdHandle(STD_INPUT_HANDLE);
	BOOL nobreak = FALSE, given = FALSE;
	long seconds = 0;
	DWORD mode;
	char *end;
	int i;

	for (i = 1; i < argc; i++) {
		const char *a = argv[i];

		if ((a[0] == '/' || a[0] == '-') && !_stricmp(a + 1, "?"))
			return usage();
		if ((a[0] == '/' || a[0] == '-') && !_stricmp(a + 1, "nobreak")) {
			nobreak = TRUE;
			continue;
		}
		if ((a[0] == '/' || a[0] == '-') && !_stricmp(a + 1, "t")) {
			if (++i == argc)
				return refuse("Invalid syntax. Value expected for '/t'.");
			a = argv[i];
		}
		if (given)
			return refuse("Invalid syntax. Default option is not allowed more than '1' time(s).");
		seconds = strtol(a, &end, 10);
		if (*end || end == a || seconds < -1 || seconds > MOST)
			return refuse("Invalid value for timeout (/T) specified. Valid range is -1 to 99999 seconds.");
		given = TRUE;
	}
	if (!given)
		return refuse("Invalid syntax. Timeout value must be specified.");
	if (!GetConsoleMode(console, &mode)) {
		fputs("ERROR: Input redirection is not supported, exiting the process immediately.\n", stderr);
		return 1;
	}
	wait_for(seconds, nobreak && seconds >= 0, console);
	return 0;
}
