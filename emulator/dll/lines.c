#include "lines.h"

#include <stdlib.h>
#include <string.h>

char *read_all(FILE *file, size_t *size)
{
	size_t room = 1 << 16, n;
	char *text = malloc(room), *more;

	for (*size = 0; text && (n = fread(text + *size, 1, room - *size - 1, file)) > 0;) {
		*size += n;
		if (room - *size > 1)
			continue;
		more = realloc(text, room *= 2);
		if (!more)
			free(text);
		text = more;
	}
	if (text)
		text[*size] = 0;
	return text;
}

char *next_line(char **text, const char *end)
{
	char *line = *text, *stop;

	if (line >= end)
		return NULL;
	stop = memchr(line, '\n', (size_t)(end - line));
	*text = stop ? stop + 1 : (char *)end;
	if (stop) {
		*stop = 0;
		if (stop > line && stop[-1] == '\r')
			stop[-1] = 0;
	}
	return line;
}
