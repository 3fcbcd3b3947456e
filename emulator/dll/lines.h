/* Lines of text, as more.com and sort.exe read them. */
#ifndef LINES_H
#define LINES_H

#include <stddef.h>
#include <stdio.h>

/* Reads all of a file. NULL: there is no memory. *size is its length, without the zero that follows it. */
char *read_all(FILE *file, size_t *size);

/* Cuts the next line off a text that ends with a zero at end. The line loses its end. NULL: there is none. */
char *next_line(char **text, const char *end);

#endif
