/* The switches of the mends. To learn whether a Wine needs a mend, a probe runs a program without it. The switches are a
 * text in the DLL's file, in which a + stands before each mend: the probe has a copy of the DLL with a - there, in a
 * prefix of its own (emulator/wine/mends_linux.go). Neither a variable nor another file can leave a mend out, which a
 * container could set or make: whoever can change this file decides on the code anyway. */
#include "mend.h"

#define BEGIN "porthole-mends:"
#define SWITCH_TEXT(constant, name) " +" name

/* The compiler must not know what stands there. */
static const volatile char switches[] = BEGIN MEND_SWITCHES(SWITCH_TEXT) " ";

#define SWITCH_NAME(constant, name) name,
static const char *const names[SWITCHES] = { MEND_SWITCHES(SWITCH_NAME) };

BOOL mend_on[SWITCHES];

void switches_read(void)
{
	size_t i, n = 0;

	for (i = sizeof BEGIN - 1; i < sizeof switches && n < SWITCHES; i++)
		if (switches[i] == ' ')
			mend_on[n++] = switches[i + 1] != '-';
}

const char *mend_name(enum mend_switch which) { return names[which]; }
