/* sort.exe, which Wine 8.0 has not: sorts lines without regard to case, from its input or a file. Options and words are those of
 * learn.microsoft.com, sort. */
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

static size_t first; /* column, counted from 0, that lines are compared from */
static BOOL reverse;

static int refuse(const char *what)
{
	fprintf(stderr, "Invalid switch: %s\n", what);
	return 1;
}

static const char *from_column(const char *line)
{
	size_t length = strlen(line);

	return line + (first < length ? first : length);
}

static int compare(const void *a, const void *b)
{
	const char *one = *(char *const *)a, *two = *(char *const *)b;
	int order = _stricmp(from_column(one), from_column(two));

	return reverse ? -order : order;
}

/* Sorts in a way that keeps the order of equal lines: by halves. */
static void sort_lines(char **lines, char **room, size_t n)
{
	size_t half = n / 2, i = 0, j = half, k;

	if (n < 2)
		return;
	sort_lines(lines, room, half);
	sort_lines(lines + half, room, n - half);
	for (k = 0; k < n; k++)
		room[k] = j == n || (i < half && compare(lines + i, lines + j) <= 0) ? lines[i++] : lines[j++];
	memcpy(lines, room, n * sizeof *lines);
}

/* Reads the options. Returns FALSE, and says so, if one is not known. */
static BOOL options(int argc, char **argv, const char **in, const char **out, BOOL *unique)
{
	char *end;
	int i;

	for (i = 1; i < argc; i++) {
		const char *a = argv[i], *o = a + 1;

		if (*a != '/' && *a != '-') {
			if (*in)
				return !refuse(a);
			*in = a;
		} else if (!_stricmp(o, "r") || !_stricmp(o, "reverse")) {
			reverse = TRUE;
		} else if (!_strnicmp(o, "uniq", 4)) {
			*unique = TRUE;
		} else if (*o == '+') {
			first = strtoul(o + 1, &end, 10);
			if (*end || !first--)
				return !refuse(a);
		} else if ((!_stricmp(o, "o") || !_stricmp(o, "output")) && i + 1 < argc) {
			*out = argv[++i];
		} else if ((!_stricmp(o, "l") || !_stricmp(o, "m") || !_stricmp(o, "t") || !_stricmp(o, "rec")) && i + 1 < argc) {
			i++; /* locale, memory, folder, length of lines: they change nothing here */
		} else {
			return !refuse(a);
		}
	}
	return TRUE;
}

int main(int argc, char **argv)
{
	const char *in = NULL, *out = NULL;
	char *text, *end, *line, **lines, **room;
	size_t size, n = 0, i;
	BOOL unique = FALSE;
	FILE *from = stdin, *to = stdout;

	if (!options(argc, argv, &in, &out, &unique))
		return 1;
	_setmode(_fileno(stdin), _O_BINARY);
	if (in && !(from = fopen(in, "rb"))) {
		fprintf(stderr, "%sThe system cannot find the file specified.\n", in);
		return 1;
	}
	text = read_all(from, &size);
	lines = text ? malloc((size + 1) * sizeof *lines) : NULL;
	room = lines ? malloc((size + 1) * sizeof *lines) : NULL;
	if (!room) {
		fputs("Not enough memory.\n", stderr);
		return 1;
	}
	for (end = text + size; (line = next_line(&text, end));)
		lines[n++] = line;
	sort_lines(lines, room, n);
	if (out && !(to = fopen(out, "w"))) {
		fprintf(stderr, "%sAccess is denied.\n", out);
		return 1;
	}
	for (i = 0; i < n; i++)
		if (!unique || !i || _stricmp(lines[i], lines[i - 1]))
			fprintf(to, "%s\n", lines[i]);
	return fclose(to) ? 1 : 0;
}
