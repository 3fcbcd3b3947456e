#include "adapters.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* One call of a program asks about a dozen times, each time over a connection of its own: in nsi.dll the answer is good for all of
 * them. Other DLLs are built with 0, because nobody would tell them of changes. */
#ifndef KEPT_MS
#define KEPT_MS 10
#endif

static SRWLOCK lock = SRWLOCK_INIT;
static WCHAR *last;    /* answer of hnsd; under lock, as the others */
static ULONGLONG until; /* GetTickCount64 when last must be asked for again; 0: now */
static unsigned forgotten; /* how often the answer was forgotten */

/* Asks hnsd over a connection of its own. The caller frees the answer; NULL: there is none. */
static WCHAR *ask_hnsd(void)
{
	struct call c = { OP_ADAPTERS };
	HRESULT result = E_FAIL;
	int wire = wire_open();

	if (wire == NO_WIRE)
		return NULL;
	if (wire_send(wire, &c) || wire_receive(wire, &c, &result))
		result = E_FAIL;
	wire_close(wire);
	wire_free(c.out[1]);
	if (SUCCEEDED(result))
		return c.out[0];
	wire_free(c.out[0]);
	return NULL;
}

/* Asks again if the last answer is old or was forgotten. An answer that was forgotten while it was on its way is not kept. */
static void renew(void)
{
	unsigned before;
	BOOL kept;
	WCHAR *answer;

	AcquireSRWLockExclusive(&lock);
	kept = GetTickCount64() < until;
	before = forgotten;
	ReleaseSRWLockExclusive(&lock);
	if (kept || !(answer = ask_hnsd()))
		return;

	AcquireSRWLockExclusive(&lock);
	wire_free(last);
	last = answer;
	until = before == forgotten ? GetTickCount64() + KEPT_MS : 0;
	ReleaseSRWLockExclusive(&lock);
}

/* Returns a copy of an answer that is not older than the last change which this program made or was told of, for free(). */
static WCHAR *newest(void)
{
	WCHAR *copy = NULL;

	renew();
	AcquireSRWLockExclusive(&lock);
	if (last)
		copy = _wcsdup(last);
	ReleaseSRWLockExclusive(&lock);
	return copy;
}

void adapters_forget(void)
{
	AcquireSRWLockExclusive(&lock);
	until = 0;
	forgotten++;
	ReleaseSRWLockExclusive(&lock);
}

/* Cuts off the text up to the separator, and returns it. *p moves behind it. */
static WCHAR *cut(WCHAR **p, WCHAR separator)
{
	WCHAR *begin = *p, *end = wcschr(begin, separator);

	if (end)
		*end++ = 0;
	else
		end = begin + wcslen(begin);
	*p = end;
	return begin;
}

static UINT hex_digit(WCHAR c)
{
	return c <= L'9' ? c - L'0' : (c | 0x20) - L'a' + 10;
}

/* Reads hexadecimal digits, leaving out what is between them; returns how many bytes these were. */
static UINT hex_bytes(const WCHAR *text, BYTE *out, UINT size)
{
	UINT n = 0;

	for (; *text && n < 2 * size; text++) {
		if (!wcschr(L"0123456789abcdefABCDEF", *text))
			continue;
		out[n / 2] = (BYTE)(n % 2 ? out[n / 2] << 4 | hex_digit(*text) : hex_digit(*text));
		n++;
	}
	return n / 2;
}

static void parse_adapter(WCHAR *line, struct adapter *a)
{
	WCHAR *kind;
	BYTE b[16] = { 0 };

	a->index = wcstoul(cut(&line, L'\t'), NULL, 10);
	a->link = wcstoul(cut(&line, L'\t'), NULL, 10);
	a->luid = _wcstoui64(cut(&line, L'\t'), NULL, 10);
	a->bound = wcstoul(cut(&line, L'\t'), NULL, 10) != 0;
	kind = cut(&line, L'\t');
	a->virtual_ = !wcscmp(kind, L"virtual");
	a->loopback = !wcscmp(kind, L"loopback");
	a->metric = wcstoul(cut(&line, L'\t'), NULL, 10);
	hex_bytes(cut(&line, L'\t'), b, sizeof b);
	a->guid.Data1 = (ULONG)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
	a->guid.Data2 = (USHORT)(b[4] << 8 | b[5]);
	a->guid.Data3 = (USHORT)(b[6] << 8 | b[7]);
	memcpy(a->guid.Data4, b + 8, 8);
	lstrcpynW(a->alias, cut(&line, L'\t'), IF_MAX_STRING_SIZE + 1);
	lstrcpynW(a->description, line, IF_MAX_STRING_SIZE + 1);
}

static void parse_owned(WCHAR *line, struct owned *o)
{
	o->link = wcstoul(cut(&line, L'\t'), NULL, 10);
	o->size = hex_bytes(cut(&line, L'\t'), o->address, sizeof o->address);
	o->index = wcstoul(line, NULL, 10);
}

/* Reads a DNS server, or that there are servers of the host's own. */
static void parse_server(WCHAR *line, struct adapters *a)
{
	struct server *s = &a->servers[a->server_count];

	s->index = wcstoul(cut(&line, L'\t'), NULL, 10);
	s->size = hex_bytes(line, s->address, sizeof s->address);
	if (s->index)
		a->server_count++;
	else
		a->own_servers = TRUE;
}

BOOL adapters_read(struct adapters *a)
{
	WCHAR *text = newest(), *p = text, *line, *what;
	size_t lines = 1;

	memset(a, 0, sizeof *a);
	if (!text)
		return FALSE;
	for (line = text; *line; line++)
		lines += *line == L'\n';
	a->list = calloc(lines, sizeof *a->list);
	a->owned = calloc(lines, sizeof *a->owned);
	a->servers = calloc(lines, sizeof *a->servers);
	while (a->list && a->owned && a->servers && *p) {
		line = cut(&p, L'\n');
		what = cut(&line, L'\t');
		if (!wcscmp(what, L"adapter"))
			parse_adapter(line, &a->list[a->count++]);
		else if (!wcscmp(what, L"dns"))
			parse_server(line, a);
		else
			parse_owned(line, &a->owned[a->owned_count++]);
	}
	free(text);
	if (a->count)
		return TRUE;
	adapters_free(a);
	return FALSE;
}

void adapters_free(struct adapters *a)
{
	free(a->list);
	free(a->owned);
	free(a->servers);
	memset(a, 0, sizeof *a);
}

const struct adapter *adapter_with_luid(const struct adapters *a, uint64_t luid)
{
	UINT i;

	for (i = 0; i < a->count; i++)
		if (a->list[i].luid == luid)
			return &a->list[i];
	return NULL;
}

const struct adapter *adapter_with_index(const struct adapters *a, UINT index)
{
	UINT i;

	for (i = 0; i < a->count; i++)
		if (a->list[i].index == index)
			return &a->list[i];
	return NULL;
}

const struct adapter *adapter_at(const struct adapters *a, UINT link)
{
	UINT i;

	for (i = 0; i < a->count; i++)
		if (a->list[i].link == link && a->list[i].bound)
			return &a->list[i];
	return NULL;
}

const struct adapter *adapter_of(const struct adapters *a, UINT link, const void *address, UINT size)
{
	UINT i;

	for (i = 0; i < a->owned_count; i++) {
		const struct owned *o = &a->owned[i];
		if (o->link == link && o->size == size && !memcmp(o->address, address, size))
			return o->index ? adapter_with_index(a, o->index) : NULL;
	}
	return adapter_at(a, link);
}
