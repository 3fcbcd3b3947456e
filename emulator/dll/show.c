#include "adapters.h"
#include "show.h"

#include <ipifcons.h>
#include <string.h>

/* First parts of the GUIDs of modules, whose other parts are alike, and tables (include/wine/nsi.h). */
enum { NDIS = 0x11, IPV4 = 0x00, IPV6 = 0x01 };
enum { INTERFACES = 0, LUID_OF_INDEX = 2, ADDRESSES = 10, NEIGHBOURS = 11, ROUTES = 16 };

#define LINK_SPEED 10000000000ull /* 10 Gbit/s, of which adapters.metric is the metric */

struct counted {
	USHORT size; /* bytes */
	WCHAR text[IF_MAX_STRING_SIZE + 1];
};

struct if_read_write {
	GUID network;
	UINT admin_status;
	struct counted alias;
	USHORT address_size;
	BYTE address[IF_MAX_PHYS_ADDRESS_LENGTH];
	USHORT pad;
	struct counted name2;
	UINT unknown;
};

struct if_dynamic {
	UINT oper_status, flags, connected, unknown, mtu;
	uint64_t send_speed, receive_speed, counters[22];
};

struct if_static {
	UINT index;
	struct counted description;
	UINT type, access, unknown, connection;
	GUID guid;
	USHORT present, address_size;
	BYTE address[IF_MAX_PHYS_ADDRESS_LENGTH];
	UINT flags; /* 1: hardware */
	UINT media, physical;
};

struct if_row {
	uint64_t luid;
	struct if_read_write read_write;
	struct if_dynamic dynamic;
	struct if_static fixed;
};

static const UINT if_sizes[COLUMNS] = { sizeof(uint64_t), sizeof(struct if_read_write), sizeof(struct if_dynamic), sizeof(struct if_static) };

static UINT module_of(const struct head *h)
{
	/* NPI_MODULEID: length, type, GUID */
	return *(const UINT *)((const BYTE *)h->module + 8) & 0xff;
}

/* Where a row has its LUIDs and its address. 0 for address: none counts. */
struct place {
	UINT luid, second, address, address_size;
};

static BOOL place_of(const struct head *h, struct place *p)
{
	static const struct place places[2][3] = {
		{ { 0, 0, 8, 4 }, { 0, 8, 0, 0 }, { 24, 32, 0, 0 } },
		{ { 0, 0, 8, 16 }, { 0, 8, 0, 0 }, { 40, 48, 0, 0 } },
	};
	UINT module = module_of(h);

	if (module != IPV4 && module != IPV6)
		return FALSE;
	if (h->table != ADDRESSES && h->table != NEIGHBOURS && h->table != ROUTES)
		return FALSE;
	*p = places[module == IPV6][h->table == ADDRESSES ? 0 : h->table == NEIGHBOURS ? 1 : 2];
	return TRUE;
}

/* Linux' half counts interfaces by their index, and has the loopback first. */
static uint64_t link_luid(UINT link, BOOL loopback)
{
	return (uint64_t)(loopback ? IF_TYPE_SOFTWARE_LOOPBACK : IF_TYPE_ETHERNET_CSMACD) << 48 | (uint64_t)link << 24;
}

static UINT link_of(uint64_t luid)
{
	return luid >> 24 & 0xffffff;
}

static void count_text(struct counted *c, const WCHAR *text)
{
	memset(c, 0, sizeof *c);
	lstrcpynW(c->text, text, IF_MAX_STRING_SIZE + 1);
	c->size = (USHORT)(lstrlenW(c->text) * sizeof(WCHAR));
}

/* Reads the interface of Linux that carries the adapter, and gives it what Windows shows. */
static DWORD interface_row(const struct adapter *a, const struct head *h, struct if_row *row)
{
	uint64_t link = link_luid(a->link, a->loopback);
	struct all_parameters r = { *h, { { &link, sizeof link }, { &row->read_write, sizeof row->read_write },
					  { &row->dynamic, sizeof row->dynamic }, { &row->fixed, sizeof row->fixed } } };
	DWORD result;

	r.head.table = INTERFACES;
	memset(row, 0, sizeof *row);
	result = ask_all_parameters(&r);
	if (result != NO_ERROR)
		return result;
	row->luid = a->luid;
	count_text(&row->read_write.alias, a->alias);
	count_text(&row->fixed.description, a->description);
	row->fixed.index = a->index;
	row->fixed.guid = a->guid;
	row->dynamic.send_speed = row->dynamic.receive_speed = LINK_SPEED;
	if (a->virtual_)
		row->fixed.flags &= ~1u;
	return NO_ERROR;
}

static void copy_row(const struct if_row *row, struct column *columns)
{
	const void *parts[COLUMNS] = { &row->luid, &row->read_write, &row->dynamic, &row->fixed };
	int i;

	for (i = 0; i < COLUMNS; i++) {
		if (!columns[i].size || !columns[i].data)
			continue;
		memcpy(columns[i].data, parts[i], columns[i].size < if_sizes[i] ? columns[i].size : if_sizes[i]);
		columns[i].data = (BYTE *)columns[i].data + columns[i].size;
	}
}

static DWORD all_interfaces(const struct adapters *a, struct all_objects *r)
{
	struct column columns[COLUMNS];
	static const struct column none;
	BOOL wants = FALSE;
	struct if_row row;
	uintptr_t n = 0;
	UINT i;

	memcpy(columns, r->columns, sizeof columns);
	for (i = 0; i < COLUMNS; i++) {
		wants |= columns[i].size != 0;
		if (!columns[i].size)
			columns[i] = none;
	}
	for (i = 0; i < a->count; i++) {
		if (interface_row(&a->list[i], &r->head, &row) != NO_ERROR)
			continue; /* it went away */
		if (n < r->count)
			copy_row(&row, columns);
		n++;
	}
	if (wants && n > r->count)
		return ERROR_MORE_DATA;
	r->count = n;
	return NO_ERROR;
}

/* Gives a row of the IP tables the LUID and index that Windows shows. FALSE: Windows does not show it. */
static BOOL show_row(const struct adapters *a, const struct place *p, BYTE *key, BYTE *fixed, BOOL route)
{
	uint64_t luid;
	const struct adapter *at;

	memcpy(&luid, key + p->luid, sizeof luid);
	at = p->address ? adapter_of(a, link_of(luid), key + p->address, p->address_size) : adapter_at(a, link_of(luid));
	if (!at)
		return FALSE;
	memcpy(key + p->luid, &at->luid, sizeof at->luid);
	memcpy(&luid, key + p->second, sizeof luid);
	if (p->second && luid)
		memcpy(key + p->second, &at->luid, sizeof at->luid);
	if (route && fixed)
		memcpy(fixed + 4, &at->index, sizeof at->index); /* origin, index */
	return TRUE;
}

/* Moves the row to a place further ahead in the table. */
static void move_row(struct column *c, uintptr_t from, uintptr_t to)
{
	int i;

	for (i = 0; i < COLUMNS && from != to; i++)
		if (c[i].size)
			memcpy((BYTE *)c[i].data + to * c[i].size, (BYTE *)c[i].data + from * c[i].size, c[i].size);
}

/* Reads a table of IP and closes the gaps of rows that are not shown. */
static DWORD all_rows(const struct adapters *a, const struct place *p, struct all_objects *r)
{
	struct column *c = r->columns;
	DWORD result = ask_all_objects(r);
	uintptr_t from, to = 0;

	if (result != NO_ERROR || !c[KEY].data || !c[KEY].size)
		return result;
	for (from = 0; from < r->count; from++) {
		BYTE *key = (BYTE *)c[KEY].data + from * c[KEY].size;
		BYTE *fixed = c[STATIC].size ? (BYTE *)c[STATIC].data + from * c[STATIC].size : NULL;
		if (!show_row(a, p, key, fixed, r->head.table == ROUTES))
			continue;
		move_row(c, from, to++);
	}
	r->count = to;
	return NO_ERROR;
}

void without_default_prefix(struct all_objects *r)
{
	static const struct {
		UINT bits, gateway, size; /* places in a key: the length of the prefix, and the next hop with its size */
	} places[2] = { { 8, 40, 4 }, { 20, 56, 16 } };
	static const BYTE none[16];
	struct column *c = r->columns;
	UINT module = module_of(&r->head), family = module == IPV6;
	uintptr_t from, to = 0;

	if ((module != IPV4 && module != IPV6) || r->head.table != ROUTES)
		return;
	if (c[DYNAMIC].size || c[STATIC].size || !c[READ_WRITE].size)
		return;
	if (!c[KEY].data || c[KEY].size < places[family].gateway + places[family].size)
		return;
	for (from = 0; from < r->count; from++) {
		const BYTE *key = (const BYTE *)c[KEY].data + from * c[KEY].size;
		if (key[places[family].bits] || memcmp(key + places[family].gateway, none, places[family].size))
			move_row(c, from, to++);
	}
	r->count = to;
}

/* Copies a key of an IP table with the LUIDs of Linux. FALSE: no adapter with IP has the LUID. */
static BOOL linux_key(const struct adapters *a, const struct place *p, const struct column *key, BYTE *copy, UINT size)
{
	const struct adapter *at;
	uint64_t luid;

	if (key->size > size || key->size < p->luid + sizeof luid)
		return FALSE;
	memcpy(copy, key->data, key->size);
	memcpy(&luid, copy + p->luid, sizeof luid);
	at = adapter_with_luid(a, luid);
	if (!at || !at->bound)
		return FALSE;
	luid = link_luid(at->link, at->loopback);
	memcpy(copy + p->luid, &luid, sizeof luid);
	return TRUE;
}

DWORD show_all_objects(struct all_objects *r)
{
	struct adapters a;
	struct place p;
	BOOL interfaces = module_of(&r->head) == NDIS && r->head.table == INTERFACES;
	DWORD result;

	if ((!interfaces && !place_of(&r->head, &p)) || !adapters_read(&a))
		return ask_all_objects(r);
	result = interfaces ? all_interfaces(&a, r) : all_rows(&a, &p, r);
	adapters_free(&a);
	return result;
}

static DWORD one_interface(const struct adapters *a, const struct head *h, const void *key, struct if_row *row)
{
	uint64_t luid;
	const struct adapter *at;

	memcpy(&luid, key, sizeof luid);
	at = adapter_with_luid(a, luid);
	return at ? interface_row(at, h, row) : ERROR_FILE_NOT_FOUND;
}

DWORD show_all_parameters(struct all_parameters *r)
{
	struct all_parameters of_linux = *r;
	struct adapters a;
	struct place p;
	struct if_row row;
	BYTE key[128];
	BOOL interfaces = module_of(&r->head) == NDIS && r->head.table == INTERFACES;
	DWORD result = ERROR_FILE_NOT_FOUND;

	if ((!interfaces && !place_of(&r->head, &p)) || !adapters_read(&a))
		return ask_all_parameters(r);
	if (interfaces) {
		result = one_interface(&a, &r->head, r->columns[KEY].data, &row);
		of_linux.columns[KEY].size = 0;
		if (result == NO_ERROR)
			copy_row(&row, of_linux.columns);
	} else if (linux_key(&a, &p, &r->columns[KEY], key, sizeof key)) {
		of_linux.columns[KEY].data = key;
		result = ask_all_parameters(&of_linux);
	}
	adapters_free(&a);
	return result;
}

static DWORD interface_part(const struct adapters *a, struct one_parameter *r)
{
	struct if_row row;
	const BYTE *parts[] = { (BYTE *)&row.read_write, (BYTE *)&row.dynamic, (BYTE *)&row.fixed };
	DWORD result;

	if (r->kind > 2 || (uint64_t)r->offset + r->size > if_sizes[r->kind + READ_WRITE])
		return ERROR_INVALID_PARAMETER;
	result = one_interface(a, &r->head, r->key.data, &row);
	if (result == NO_ERROR)
		memcpy(r->data, parts[r->kind] + r->offset, r->size);
	return result;
}

static DWORD luid_of_index(const struct adapters *a, struct one_parameter *r)
{
	const struct adapter *at = adapter_with_index(a, *(const UINT *)r->key.data);

	if (r->size != sizeof at->luid || r->offset)
		return ERROR_INVALID_PARAMETER;
	if (!at)
		return ERROR_FILE_NOT_FOUND;
	memcpy(r->data, &at->luid, sizeof at->luid);
	return NO_ERROR;
}

DWORD show_one_parameter(struct one_parameter *r)
{
	struct one_parameter of_linux = *r;
	struct adapters a;
	struct place p;
	BYTE key[128];
	BOOL ndis = module_of(&r->head) == NDIS && (r->head.table == INTERFACES || r->head.table == LUID_OF_INDEX);
	DWORD result = ERROR_FILE_NOT_FOUND;

	if ((!ndis && !place_of(&r->head, &p)) || !adapters_read(&a))
		return ask_one_parameter(r);
	if (ndis) {
		result = r->head.table == INTERFACES ? interface_part(&a, r) : luid_of_index(&a, r);
	} else if (linux_key(&a, &p, &r->key, key, sizeof key)) {
		of_linux.key.data = key;
		result = ask_one_parameter(&of_linux);
	}
	adapters_free(&a);
	return result;
}
