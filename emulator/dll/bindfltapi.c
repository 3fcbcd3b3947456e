/* bindfltapi.dll, which Wine does not have: the bind filter, by which one folder of Windows shows another's content, to all programs or to
 * those of a silo. hcsd (emulator/hcsd/silos/store_linux.go) makes the mappings. A silo is known by the name of its job. */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winternl.h>

NTSTATUS NTAPI NtQueryObject(HANDLE, OBJECT_INFORMATION_CLASS, void *, ULONG, ULONG *);

#define API __declspec(dllexport) HRESULT WINAPI

enum { NAME_INFORMATION = 1, LONGEST = 512 /* characters of a name */ };

/* The connection that holds the silos of this program. When the program ends, hcsd ends them. */
static int held = NO_WIRE;
static SRWLOCK lock = SRWLOCK_INIT;

/* Copies the name of a job, without its folder, to name. No job is "". */
static BOOL name_of(HANDLE job, WCHAR *name)
{
	struct {
		UNICODE_STRING name;
		WCHAR text[LONGEST];
	} info = { 0 };
	const WCHAR *last;

	*name = 0;
	if (!job)
		return TRUE;
	if (NtQueryObject(job, (OBJECT_INFORMATION_CLASS)NAME_INFORMATION, &info, sizeof info - sizeof(WCHAR), NULL) < 0 || !info.name.Length)
		return FALSE;
	last = wcsrchr(info.name.Buffer, L'\\');
	wcscpy(name, last ? last + 1 : info.name.Buffer);
	return TRUE;
}

/* Makes one call. The text that it answers is the caller's. Without hcsd it fails with RPC_SERVER_UNAVAILABLE: then there are no mappings. */
static HRESULT call(const WCHAR *function, HANDLE job, const WCHAR *document, WCHAR **out)
{
	WCHAR name[LONGEST];
	struct call c = { OP_HCS, 0, NULL, { function, name, document } };
	HRESULT hr = RPC_SERVER_UNAVAILABLE;

	if (!name_of(job, name))
		return HRESULT_FROM_WIN32(ERROR_NOT_SUPPORTED); /* a job without a name */
	AcquireSRWLockExclusive(&lock);
	if (held == NO_WIRE)
		held = wire_open_at(HCSD_PORT, "HCSD_ADDR");
	if (held != NO_WIRE && (wire_send(held, &c) != 0 || wire_receive(held, &c, &hr) != 0)) {
		wire_close(held);
		held = NO_WIRE;
		hr = RPC_CALL_FAILED;
	}
	ReleaseSRWLockExclusive(&lock);
	wire_free(c.out[1]);
	if (out)
		*out = c.out[0];
	else
		wire_free(c.out[0]);
	return hr;
}

API BfSetupFilter(HANDLE job, ULONG flags, const WCHAR *root, const WCHAR *target, const WCHAR **except, ULONG count)
{
	size_t room;
	WCHAR *document;
	HRESULT hr;

	if (!root || !target)
		return E_INVALIDARG;
	if (except && count)
		return HRESULT_FROM_WIN32(ERROR_NOT_SUPPORTED);
	room = wcslen(root) + wcslen(target) + 16;
	document = malloc(room * sizeof *document);
	if (!document)
		return E_OUTOFMEMORY;
	_snwprintf(document, room, L"%lu\n%ls\n%ls", flags, root, target);
	hr = call(L"BfSetupFilter", job, document, NULL);
	free(document);
	return hr == RPC_SERVER_UNAVAILABLE ? HRESULT_FROM_WIN32(ERROR_NOT_SUPPORTED) : hr;
}

API BfRemoveMapping(HANDLE job, const WCHAR *root)
{
	HRESULT hr = root ? call(L"BfRemoveMapping", job, root, NULL) : E_INVALIDARG;

	return hr == RPC_SERVER_UNAVAILABLE ? HRESULT_FROM_WIN32(ERROR_NOT_FOUND) : hr;
}

/* The answer of BfGetMappings (go-winio, pkg/bindfilter): a head, an entry for each mapping, and the texts. Offsets are from its start. */
struct head {
	ULONG size, status, count;
};

struct entry {
	ULONG root_length, root_offset, flags, targets, targets_offset;
};

struct target {
	ULONG length, offset;
};

/* Writes mappings, of which each is three lines, behind a head with room for count, if all is within room. Returns the size of all. */
static ULONG write_mappings(WCHAR *text, BYTE *answer, ULONG room, ULONG count)
{
	ULONG at = sizeof(struct head) + count * (sizeof(struct entry) + sizeof(struct target)), i, k;
	struct entry *e = (void *)(answer + sizeof(struct head));
	struct target *t = (void *)(e + count);
	WCHAR *line = text;

	for (i = 0; i < count; i++, e++, t++) {
		ULONG flags = wcstoul(line, &line, 10);

		for (k = 0; k < 2; k++) {
			WCHAR *begin = ++line;
			ULONG size;

			line = wcschr(line, L'\n');
			size = (ULONG)((line - begin) * sizeof *line);
			if (at + size <= room) {
				memcpy(answer + at, begin, size);
				if (k == 0)
					*e = (struct entry){ size, at, flags, 1, (ULONG)((BYTE *)t - answer) };
				else
					*t = (struct target){ size, at };
			}
			at += size;
		}
		line++;
	}
	return at;
}

API BfGetMappings(ULONG flags, HANDLE job, const WCHAR *root, void *user, ULONG *size, ULONG *answer)
{
	WCHAR *text = NULL, *p;
	ULONG room, lines = 0;
	HRESULT hr;

	(void)flags, (void)root, (void)user;
	if (!size || !answer)
		return E_INVALIDARG;
	room = *size;
	hr = call(L"BfGetMappings", job, L"", &text);
	if (FAILED(hr) && hr != RPC_SERVER_UNAVAILABLE)
		return hr;
	for (p = text; p && *p; p++)
		lines += *p == L'\n';
	if (room >= sizeof(struct head) + lines / 3 * (sizeof(struct entry) + sizeof(struct target)))
		*size = write_mappings(text, (BYTE *)answer, room, lines / 3);
	else
		*size = 0x10000;
	wire_free(text);
	if (room < *size)
		return HRESULT_FROM_WIN32(ERROR_INSUFFICIENT_BUFFER);
	*(struct head *)(void *)answer = (struct head){ *size, 0, lines / 3 };
	return S_OK;
}
