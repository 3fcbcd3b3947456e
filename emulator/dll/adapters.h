/* The adapters of the host as Windows shows them, which hnsd knows (operation Adapters of package emulator/wire). */
#ifndef ADAPTERS_H
#define ADAPTERS_H

#include "wire.h"

#include <ifdef.h>

struct adapter {
	UINT index, link; /* what Windows shows, and Linux' interface index */
	uint64_t luid;
	BOOL bound; /* has IP: a card that a virtual switch took over has none */
	BOOL virtual_, loopback;
	UINT metric;
	GUID guid;
	WCHAR alias[IF_MAX_STRING_SIZE + 1], description[IF_MAX_STRING_SIZE + 1];
};

/* An address that does not belong to the first bound adapter of its link; index 0: to none. */
struct owned {
	UINT link, index, size;
	BYTE address[16];
};

/* A DNS server of an adapter; those of one adapter are in its order. */
struct server {
	UINT index, size;
	BYTE address[16];
};

struct adapters {
	struct adapter *list;
	struct owned *owned;
	struct server *servers;
	UINT count, owned_count, server_count;
	BOOL own_servers; /* else each adapter has the DNS servers of this machine, and there are none here */
};

/* Reads the adapters, in Windows' order. While hnsd is away they are those of before. FALSE: hnsd never answered, as in a container;
 * then what Linux has is shown. */
BOOL adapters_read(struct adapters *a);
void adapters_free(struct adapters *a);

/* The next adapters_read asks hnsd, which is otherwise asked every few milliseconds at most. To be called when adapters or addresses have
 * changed; other DLLs call it through forget.h. */
void adapters_forget(void);

/* Finds an adapter; NULL: there is none. adapter_at: the first bound one of a link; adapter_of: the one that has the address. */
const struct adapter *adapter_with_luid(const struct adapters *a, uint64_t luid);
const struct adapter *adapter_with_index(const struct adapters *a, UINT index);
const struct adapter *adapter_at(const struct adapters *a, UINT link);
const struct adapter *adapter_of(const struct adapters *a, UINT link, const void *address, UINT size);

#endif
