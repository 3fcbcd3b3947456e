/* findstr.exe: finds lines by texts or by Windows' simple expressions (learn.microsoft.com/windows-server/administration/windows-commands/findstr).
 * Wine's 8.0 prints nothing. */
#include <windows.h>

#include <ctype.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 512, LONGEST_PATH = 1024 };

struct text {
	const char *is;
	BOOL spaced; /* may contain spaces: of /C or a line of /G */
};

struct wanted {
	struct text texts[MOST_TEXTS];
	int count;
	BOOL begin, end, whole, fold, invert, numbers, offsets, names, below, printable;
	int expression; /* 1: /R, -1: /L, 0: by the first text */
	BOOL given;	/* /C or /G: the first argument is a file */
};

static struct wanted w;
static BOOL many, found; /* files have their names in front; some line was printed */

/* Expressions: each function looks at the text that begins at t, in a line from line to end. */

static BOOL is_word(int c) { return isalnum(c) || c == '_'; }

static int folded(int c) { return w.fold ? tolower(c & 0xff) : c & 0xff; }

/* Returns the length of the first part of an expression, without a star behind it. */
static size_t part_length(const char *e)
{
	size_t n = 1;

	if (*e == '\\' && e[1])
		return 2;
	if (*e != '[')
		return 1;
	n += e[n] == '^';
	n += e[n] == ']';
	while (e[n] && e[n] != ']')
		n++;
	return e[n] ? n + 1 : 1; /* a bracket that nothing closes is one */
}

/* Reports whether a character is in a class, which has its brackets. */
static BOOL in_class(const char *class, size_t length, int c)
{
	BOOL other = class[1] == '^', in = FALSE;
	size_t i;

	for (i = 1 + other; i < length - 1; i++) {
		if (i + 2 < length - 1 && class[i + 1] == '-') {
			in = in || (folded(class[i]) <= c && c <= folded(class[i + 2]));
			i += 2;
		} else {
			in = in || folded(class[i]) == c;
		}
	}
	return in != other;
}

static BOOL matches_character(const char *e, size_t length, int c)
{
	if (*e == '[' && length > 1)
		return in_class(e, length, folded(c));
	if (*e == '\\' && length > 1)
		return folded(e[1]) == folded(c);
	return *e == '.' || folded(*e) == folded(c);
}

static BOOL matches(const char *e, const char *t, const char *line, const char *end)
{
	size_t length = part_length(e);
	const char *most = t;

	if (!*e)
		return !(w.end || w.whole) || t == end;
	if (*e == '^' && t == line && matches(e + 1, t, line, end))
		return TRUE;
	if (*e == '$' && !e[1])
		return t == end;
	if (*e == '\\' && e[1] == '<')
		return (t == line || !is_word(t[-1])) && t < end && is_word(*t) && matches(e + 2, t, line, end);
	if (*e == '\\' && e[1] == '>')
		return t > line && is_word(t[-1]) && (t == end || !is_word(*t)) && matches(e + 2, t, line, end);
	if (e[length] != '*')
		return t < end && *e != '^' && matches_character(e, length, *t) && matches(e + length, t + 1, line, end);
	while (most < end && matches_character(e, length, *most))
		most++;
	for (; most >= t; most--)
		if (matches(e + length + 1, most, line, end))
			return TRUE;
	return FALSE;
}

static BOOL matches_text(const char *text, const char *t, const char *end)
{
	for (; *text; text++, t++)
		if (t == end || folded(*text) != folded(*t))
			return FALSE;
	return !(w.end || w.whole) || t == end;
}

/* Reports whether an expression has a character that means more than itself. */
static BOOL has_meaning(const char *e)
{
	for (; *e; e += *e == '\\' && e[1] ? 2 : 1)
		if (strchr(".*^$[", *e) || (*e == '\\' && (e[1] == '<' || e[1] == '>')))
			return TRUE;
	return FALSE;
}

static BOOL line_has(const char *line, const char *end)
{
	const char *t, *last = w.begin || w.whole ? line : end;
	int i;

	for (i = 0; i < w.count; i++)
		for (t = line; t <= last; t++)
			if (w.expression > 0 ? matches(w.texts[i].is, t, line, end) : matches_text(w.texts[i].is, t, end))
				return TRUE;
	return FALSE;
}

/* Files. */

/* Reads a line with what ends it into *line, which grows. Returns its length; 0: there is none. */
static size_t read_line(FILE *from, char **line, size_t *room)
{
	size_t n = 0;
	int c = 0;

	while (c != '\n' && (c = fgetc(from)) != EOF) {
		if (n + 2 > *room && !(*line = realloc(*line, *room = 2 * *room + 256)))
			exit(2);
		(*line)[n++] = (char)c;
	}
	if (n)
		(*line)[n] = 0;
	return n;
}

static BOOL is_printable(const char *line, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isprint(line[i] & 0xff) && !isspace(line[i] & 0xff) && !(line[i] & 0x80))
			return FALSE;
	return TRUE;
}

static void print_line(const char *name, unsigned long number, unsigned long long offset, const char *line, size_t n)
{
	found = TRUE;
	if (w.names) {
		printf("%s\r\n", name);
		return;
	}
	if (many)
		printf("%s:", name);
	if (w.numbers)
		printf("%lu:", number);
	if (w.offsets)
		printf("%llu:", offset);
	fwrite(line, 1, n, stdout);
	if (line[n - 1] != '\n')
		fputs("\r\n", stdout);
}

static void search(FILE *from, const char *name)
{
	char *line = NULL;
	size_t room = 0, n, length;
	unsigned long number = 0;
	unsigned long long offset = 0;

	while ((n = read_line(from, &line, &room))) {
		if (w.printable && !is_printable(line, n))
			break;
		number++;
		length = n - (line[n - 1] == '\n');
		length -= length && line[length - 1] == '\r';
		if (line_has(line, line + length) != w.invert) {
			print_line(name, number, offset, line, n);
			if (w.names)
				break;
		}
		if (from == stdin)
			fflush(stdout); /* the next line may come much later */
		offset += n;
	}
	free(line);
}

static BOOL search_file(const char *name)
{
	FILE *from = fopen(name, "rb");

	if (!from) {
		fprintf(stderr, "FINDSTR: Cannot open %s\r\n", name);
		return FALSE;
	}
	search(from, name);
	fclose(from);
	return TRUE;
}

/* Searches the files of a folder that a pattern names, and with /S those of the folders in it. folder ends with a backslash or is empty. */
static void search_folder(const char *folder, const char *pattern)
{
	char path[LONGEST_PATH];
	WIN32_FIND_DATAA entry;
	HANDLE list;
	BOOL more;

	snprintf(path, sizeof path, "%s%s", folder, pattern);
	list = FindFirstFileA(path, &entry);
	for (more = list != INVALID_HANDLE_VALUE; more; more = FindNextFileA(list, &entry)) {
		snprintf(path, sizeof path, "%s%s", folder, entry.cFileName);
		if (!(entry.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY))
			search_file(path);
	}
	FindClose(list);
	if (!w.below)
		return;

	snprintf(path, sizeof path, "%s*", folder);
	list = FindFirstFileA(path, &entry);
	for (more = list != INVALID_HANDLE_VALUE; more; more = FindNextFileA(list, &entry)) {
		snprintf(path, sizeof path, "%s%s\\", folder, entry.cFileName);
		if ((entry.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) && strcmp(entry.cFileName, ".") && strcmp(entry.cFileName, ".."))
			search_folder(path, pattern);
	}
	FindClose(list);
}

/* Searches what an argument names: a file, or files by a pattern. Returns FALSE if there is no such file. */
static BOOL search_named(const char *name)
{
	char folder[LONGEST_PATH];
	size_t n = strlen(name);

	if (!w.below && !strpbrk(name, "*?"))
		return search_file(name);
	while (n && !strchr("\\/:", name[n - 1]))
		n--;
	snprintf(folder, sizeof folder, "%.*s", (int)n, name);
	search_folder(folder, name + n);
	return TRUE;
}

/* Arguments. */

static void add_text(const char *text, BOOL spaced)
{
	if (w.count < MOST_TEXTS)
		w.texts[w.count++] = (struct text){ text, spaced };
}

/* Adds the words of a text. */
static void add_words(char *text)
{
	char *word;

	for (word = strtok(text, " "); word; word = strtok(NULL, " "))
		add_text(word, FALSE);
}

/* Adds the lines of the file of /G. */
static BOOL add_file(const char *name)
{
	FILE *from = !strcmp(name, "/") ? stdin : fopen(name, "rb");
	char *line = NULL;
	size_t room = 0, n;

	if (!from) {
		fprintf(stderr, "FINDSTR: Cannot read strings from %s\r\n", name);
		return FALSE;
	}
	for (; (n = read_line(from, &line, &room)); line = NULL, room = 0) {
		line[strcspn(line, "\r\n")] = 0;
		add_text(line, TRUE);
	}
	return TRUE;
}

/* Reads the letters of an option without a value. Returns FALSE if one is unknown. */
static BOOL letters(const char *o)
{
	for (; *o; o++)
		switch (tolower(*o & 0xff)) {
		case 'b': w.begin = TRUE; break;
		case 'e': w.end = TRUE; break;
		case 'x': w.whole = TRUE; break;
		case 'i': w.fold = TRUE; break;
		case 'v': w.invert = TRUE; break;
		case 'n': w.numbers = TRUE; break;
		case 'o': w.offsets = TRUE; break;
		case 'm': w.names = TRUE; break;
		case 's': w.below = TRUE; break;
		case 'p': w.printable = TRUE; break;
		case 'l': w.expression = -1; break;
		case 'r': w.expression = 1; break;
		case '/':
		case '-': break; /* /i/n */
		default: return FALSE;
		}
	return TRUE;
}

static BOOL option(char *o)
{
	if (!_stricmp(o, "off") || !_stricmp(o, "offline") || !_strnicmp(o, "a:", 2))
		return TRUE; /* files elsewhere, colours */
	if (_strnicmp(o, "c:", 2) && _strnicmp(o, "g:", 2))
		return letters(o);
	w.given = TRUE;
	if (tolower(*o & 0xff) == 'g')
		return add_file(o + 2);
	add_text(o + 2, TRUE);
	return TRUE;
}

static int fail(const char *text)
{
	fprintf(stderr, "FINDSTR: %s\r\n", text);
	return 2;
}

int main(int argc, char **argv)
{
	BOOL readable = TRUE;
	int i;

	_setmode(0, _O_BINARY);
	_setmode(1, _O_BINARY);
	for (i = 1; i < argc && (argv[i][0] == '/' || argv[i][0] == '-') && argv[i][1]; i++)
		if (!option(argv[i] + 1))
			return fail("Bad command line");
	if (!w.given && i < argc)
		add_words(argv[i++]);
	if (!w.count)
		return fail("Bad command line");
	if (!w.expression)
		w.expression = !w.texts[0].spaced && has_meaning(w.texts[0].is) ? 1 : -1;

	many = argc - i > 1 || w.below || (i < argc && strpbrk(argv[i], "*?"));
	if (i == argc)
		search(stdin, "(standard input)");
	for (; i < argc; i++)
		readable = search_named(argv[i]) && readable;
	return found && readable ? 0 : 1;
}
