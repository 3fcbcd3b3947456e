/* more.com, which Wine 8.0 has only within its cmd.exe: shows its input, or files. On a console it stops after each screen until a key is
 * pressed. Options and words are those of learn.microsoft.com, more. */
#include <windows.h>

#include <stdlib.h>
#include <string.h>

#include "lines.h"

static BOOL squeeze;	/* /S: one empty line for several */
static unsigned long tab = 8, start; /* /Tn, +n */
static int shown, height; /* lines on the screen, and of it; 0: it is no console */

static int refuse(const char *what)
{
	fprintf(stderr, "Invalid switch - %s\n", what);
	return 1;
}

/* Waits for a key after a full screen. FALSE: the user has had enough. */
static BOOL next_screen(void)
{
	HANDLE console = CreateFileW(L"CONIN$", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
	INPUT_RECORD record = { 0 };
	DWORD n;

	if (!height || ++shown < height - 1 || console == INVALID_HANDLE_VALUE)
		return TRUE;
	fputs("-- More  -- ", stdout);
	fflush(stdout);
	while (ReadConsoleInputW(console, &record, 1, &n) && (record.EventType != KEY_EVENT || !record.Event.KeyEvent.bKeyDown))
		;
	CloseHandle(console);
	fputs("\r            \r", stdout);
	shown = 0;
	return record.Event.KeyEvent.uChar.UnicodeChar != L'q' && record.Event.KeyEvent.uChar.UnicodeChar != L'Q' && record.Event.KeyEvent.uChar.UnicodeChar != 3;
}

static BOOL show(const char *line)
{
	unsigned long column = 0;

	for (; *line; line++) {
		if (*line != '\t' || !tab) {
			putchar(*line);
			column++;
			continue;
		}
		do
			putchar(' ');
		while (++column % tab);
	}
	putchar('\n');
	return next_screen();
}

/* Shows a file. FALSE: the user has had enough. */
static BOOL show_all(FILE *file)
{
	size_t size;
	char *text = read_all(file, &size), *end = text + size, *line;
	unsigned long n = 0;
	BOOL empty = FALSE;

	while (text && (line = next_line(&text, end))) {
		if (n++ < start || (squeeze && empty && !*line))
			continue;
		empty = !*line;
		if (!show(line))
			return FALSE;
	}
	return TRUE;
}

/* Reads an option. FALSE: it is not known. */
static BOOL option(const char *o)
{
	char *end = "";

	switch (*o | 0x20) {
	case 'e':
	case 'c':
	case 'p':
		return !o[1];
	case 's':
		squeeze = TRUE;
		return !o[1];
	case 't':
		tab = strtoul(o + 1, &end, 10);
		return o[1] && !*end && tab <= 9;
	}
	return FALSE;
}

int main(int argc, char **argv)
{
	CONSOLE_SCREEN_BUFFER_INFO screen;
	int i, files = 0;
	char *end;
	FILE *file;

	if (GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &screen))
		height = screen.srWindow.Bottom - screen.srWindow.Top + 1;
	for (i = 1; i < argc; i++) {
		if (argv[i][0] == '+') {
			start = strtoul(argv[i] + 1, &end, 10);
			if (*end || !argv[i][1])
				return refuse(argv[i]);
		} else if (argv[i][0] == '/') {
			if (!option(argv[i] + 1))
				return refuse(argv[i]);
		} else {
			argv[files++] = argv[i];
		}
	}
	if (!files)
		return !show_all(stdin) && ferror(stdin);
	for (i = 0; i < files; i++) {
		if (!(file = fopen(argv[i], "r"))) {
			fprintf(stderr, "Cannot access file %s\n", argv[i]);
			return 1;
		}
		if (!show_all(file))
			return 0;
		fclose(file);
	}
	return 0;
}
