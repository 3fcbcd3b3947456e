/* What Wine's nsi.dll says of interfaces, addresses and routes, with the adapters that Windows would show (adapters.h). The layouts are
 * those of Wine 8.0 and 10.0 (include/wine/nsi.h). */
#ifndef SHOW_H
#define SHOW_H

#include <stdint.h>

#include <windows.h>

/* One request of every kind: module and table, then what each kind has. */
struct head {
	void *reserved[2];
	const void *module;
	uintptr_t table;
	UINT store, action;
};

struct column {
	void *data;
	UINT size;
};

enum { KEY, READ_WRITE, DYNAMIC, STATIC, COLUMNS };

struct all_objects {
	struct head head;
	struct column columns[COLUMNS];
	uintptr_t count;
};

struct all_parameters {
	struct head head;
	struct column columns[COLUMNS];
};

struct one_parameter {
	struct head head;
	struct column key;
	uintptr_t kind; /* 0 is READ_WRITE */
	void *data;
	UINT size, offset;
};

/* The driver's Linux half, for show_*: they return errors of Windows. */
DWORD ask_all_objects(struct all_objects *r);
DWORD ask_all_parameters(struct all_parameters *r);
DWORD ask_one_parameter(struct one_parameter *r);

/* Takes default routes without a gateway, such as the one for nothing that Linux has for IPv6 on its loopback, out of
 * what GetAdaptersAddresses of Wine 10.0 asks for prefixes: routes with what can be changed of them and nothing else.
 * Debian's (10.0~repack-6, patch uninitialized-variables) fails for a prefix of no bits. */
void without_default_prefix(struct all_objects *r);

DWORD show_all_objects(struct all_objects *r);
DWORD show_all_parameters(struct all_parameters *r);
DWORD show_one_parameter(struct one_parameter *r);

#endif
