/* The version in the registry. Since Windows 10 CurrentVersion is "6.3" there, for compatibility with old programs, and the functions
 * return 10.0. Wine's functions return what is in the registry when a program starts. So Wine's registry has "10.0"
 * (emulator/wine/build.go), which makes the functions right in every program, and here a program that reads the value gets "6.3". */
#include "mend.h"

#include <string.h>
#include <wchar.h>

static const WCHAR key_end[] = L"\\Windows NT\\CurrentVersion", value[] = L"CurrentVersion", ours[] = L"10.0", windows[] = L"6.3";

enum { FULL = 1, PARTIAL = 2, KEY_NAME = 3 }; /* KEY_VALUE_INFORMATION_CLASS; KEY_INFORMATION_CLASS */

struct full {
	ULONG index, type, offset, length, name_length;
	WCHAR name[1];
};

struct partial {
	ULONG index, type, length;
	BYTE data[1];
};

typedef NTSTATUS(NTAPI *query_key)(HANDLE, ULONG, void *, ULONG, ULONG *);
typedef NTSTATUS(NTAPI *query_value)(HANDLE, UNICODE_STRING *, ULONG, void *, ULONG, ULONG *);
typedef NTSTATUS(NTAPI *enum_value)(HANDLE, ULONG, ULONG, void *, ULONG, ULONG *);

static void *query_original, *enum_original;

static BOOL is_version_key(HANDLE key)
{
	struct {
		ULONG length;
		WCHAR name[256];
	} info;
	const size_t end = COUNT(key_end) - 1;
	ULONG length;
	query_key query = (query_key)(void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtQueryKey");

	if (!query || !STATUS_OK(query(key, KEY_NAME, &info, sizeof info, &length)))
		return FALSE;
	length = info.length / sizeof(WCHAR);
	return length >= end && !_wcsnicmp(info.name + length - end, key_end, end);
}

static BOOL is_value(const WCHAR *name, ULONG size)
{
	return size == sizeof value - sizeof(WCHAR) && !_wcsnicmp(name, value, COUNT(value) - 1);
}

/* Replaces our value by that of Windows. */
static void correct(HANDLE key, void *data, ULONG *length, ULONG *result)
{
	if (*length < sizeof ours - sizeof(WCHAR) || memcmp(data, ours, sizeof ours - sizeof(WCHAR)) || !is_version_key(key))
		return;
	memcpy(data, windows, sizeof windows);
	*length = sizeof windows;
	if (result)
		*result -= sizeof ours - sizeof windows;
}

static NTSTATUS NTAPI query_value_key(HANDLE key, UNICODE_STRING *name, ULONG class, void *info, ULONG size, ULONG *result)
{
	NTSTATUS status = ((query_value)query_original)(key, name, class, info, size, result);

	if (status || !name || !is_value(name->Buffer, name->Length))
		return status;
	if (class == PARTIAL)
		correct(key, ((struct partial *)info)->data, &((struct partial *)info)->length, result);
	else if (class == FULL)
		correct(key, (BYTE *)info + ((struct full *)info)->offset, &((struct full *)info)->length, result);
	return status;
}

static NTSTATUS NTAPI enumerate_value_key(HANDLE key, ULONG index, ULONG class, void *info, ULONG size, ULONG *result)
{
	NTSTATUS status = ((enum_value)enum_original)(key, index, class, info, size, result);
	struct full *f = info;

	if (!status && class == FULL && is_value(f->name, f->name_length))
		correct(key, (BYTE *)info + f->offset, &f->length, result);
	return status;
}

#define VERSION "CurrentVersion in the registry is 10.0 where Windows has 6.3"

struct mend registry_mends[] = {
	{ "NtQueryValueKey", VERSION, (void *)query_value_key, &query_original, NULL, FALSE },
	{ "NtEnumerateValueKey", VERSION, (void *)enumerate_value_key, &enum_original, NULL, FALSE },
	{ 0 },
};
