/* nsi.dll: what the kernel knows of interfaces, addresses and routes, for iphlpapi.dll. Wine's own asks a driver for it,
 * which a container does not run: it would bring four helper processes along. This one loads the driver's Linux half into
 * the program and asks that, in the way of Wine 8.0 and 10.0, and shows adapters as Windows does (show.c); under any other Wine it leaves
 * everything to Wine's own. */
#include "builtin.h"
#include "show.h"

#include <stdlib.h>
#include <string.h>

/* Functions of Wine's nsi.dll by our ordinals, for when it is asked after all. */
#define ALL_OBJECTS 7
#define ALL_PARAMETERS 12
#define ONE_PARAMETER 16

/* Functions of the driver's Linux half in Wine 8.0 and 10.0, and the query of ntdll that finds them. */
#define LINUX_ALL_OBJECTS 4
#define LINUX_ALL_PARAMETERS 5
#define LINUX_ONE_PARAMETER 6
#define QUERY_LINUX_FUNCTIONS 1000

#define TRIES 5

static LONG (WINAPI *call_linux)(uint64_t library, unsigned code, void *request);
static ULONG (WINAPI *error_of)(LONG status);
static uint64_t linux_half;

static DWORD ask(unsigned code, unsigned ordinal, void *request)
{
	if (linux_half)
		return error_of(call_linux(linux_half, code, request));
	return ((DWORD (WINAPI *)(void *))(void *)builtin_function[ordinal])(request);
}

DWORD ask_all_objects(struct all_objects *r) { return ask(LINUX_ALL_OBJECTS, ALL_OBJECTS, r); }

DWORD ask_all_parameters(struct all_parameters *r) { return ask(LINUX_ALL_PARAMETERS, ALL_PARAMETERS, r); }

DWORD ask_one_parameter(struct one_parameter *r) { return ask(LINUX_ONE_PARAMETER, ONE_PARAMETER, r); }

DWORD WINAPI NsiEnumerateObjectsAllParametersEx(struct all_objects *r)
{
	DWORD result = linux_half ? show_all_objects(r) : ask_all_objects(r);

	if (result == NO_ERROR)
		without_default_prefix(r);
	return result;
}

DWORD WINAPI NsiGetAllParametersEx(struct all_parameters *r) { return linux_half ? show_all_parameters(r) : ask_all_parameters(r); }

DWORD WINAPI NsiGetParameterEx(struct one_parameter *r) { return linux_half ? show_one_parameter(r) : ask_one_parameter(r); }

DWORD WINAPI NsiEnumerateObjectsAllParameters(DWORD store, DWORD action, const void *module, DWORD table, void *key, DWORD key_size, void *rw, DWORD rw_size, void *dynamic, DWORD dynamic_size, void *fixed, DWORD fixed_size, DWORD *count)
{
	struct all_objects r = { { { 0 }, module, table, store, action },
		{ { key, key_size }, { rw, rw_size }, { dynamic, dynamic_size }, { fixed, fixed_size } }, *count };
	DWORD result = NsiEnumerateObjectsAllParametersEx(&r);

	*count = (DWORD)r.count;
	return result;
}

DWORD WINAPI NsiGetAllParameters(DWORD store, const void *module, DWORD table, void *key, DWORD key_size, void *rw, DWORD rw_size, void *dynamic, DWORD dynamic_size, void *fixed, DWORD fixed_size)
{
	struct all_parameters r = { { { 0 }, module, table, store, 0 },
		{ { key, key_size }, { rw, rw_size }, { dynamic, dynamic_size }, { fixed, fixed_size } } };

	return NsiGetAllParametersEx(&r);
}

DWORD WINAPI NsiGetParameter(DWORD store, const void *module, DWORD table, void *key, DWORD key_size, DWORD kind, void *data, DWORD size, DWORD offset)
{
	struct one_parameter r = { { { 0 }, module, table, store, 0 }, { key, key_size }, kind, data, size, offset };

	return NsiGetParameterEx(&r);
}

void WINAPI NsiFreeTable(void *key, void *rw, void *dynamic, void *fixed)
{
	free(key);
	free(rw);
	free(dynamic);
	free(fixed);
}

/* Counts, makes room and reads; again if the table has grown in between. */
DWORD WINAPI NsiAllocateAndGetTable(DWORD store, const void *module, DWORD table, void **key, DWORD key_size, void **rw, DWORD rw_size, void **dynamic, DWORD dynamic_size, void **fixed, DWORD fixed_size, DWORD *count, DWORD reserved)
{
	void **out[4] = { key, rw, dynamic, fixed };
	const DWORD size[4] = { key_size, rw_size, dynamic_size, fixed_size };
	DWORD result = ERROR_MORE_DATA;
	int try, i;

	(void)reserved;
	for (try = 0; result == ERROR_MORE_DATA && try < TRIES; try++) {
		struct all_objects r = { { { 0 }, module, table, store, 0 }, { { 0 } }, 0 };

		result = NsiEnumerateObjectsAllParametersEx(&r);
		if (result != NO_ERROR)
			return result;
		for (i = 0; i < 4; i++) {
			r.columns[i].size = size[i];
			r.columns[i].data = size[i] ? calloc(r.count + 1, size[i]) : NULL;
			if (size[i] && !r.columns[i].data)
				result = ERROR_OUTOFMEMORY;
		}
		if (result == NO_ERROR)
			result = NsiEnumerateObjectsAllParametersEx(&r);
		if (result != NO_ERROR) {
			NsiFreeTable(r.columns[0].data, r.columns[1].data, r.columns[2].data, r.columns[3].data);
			continue;
		}
		for (i = 0; i < 4; i++)
			if (size[i])
				*out[i] = r.columns[i].data;
		*count = (DWORD)r.count;
	}
	return result;
}

/* What is asked of the Linux half has the same form in these two (include/wine/nsi.h of both, compared). */
static BOOL is_known(const char *version) { return !strcmp(version, "8.0") || !strcmp(version, "10.0"); }

/* Finds what calls a Linux half: 8.0 exports a function, and both the place of the function that it goes on to. */
static void find_call(HMODULE ntdll)
{
	void **dispatcher = (void *)GetProcAddress(ntdll, "__wine_unix_call_dispatcher");

	call_linux = (void *)GetProcAddress(ntdll, "__wine_unix_call");
	if (!call_linux && dispatcher)
		call_linux = *dispatcher;
}

static void find_linux_half(void)
{
	static const WCHAR file[] = L"\\drivers\\nsiproxy.sys";
	HMODULE ntdll = GetModuleHandleW(L"ntdll.dll"), driver;
	const char *(CDECL *version)(void) = (void *)GetProcAddress(ntdll, "wine_get_version");
	LONG (WINAPI *query)(HANDLE, const void *, unsigned, void *, SIZE_T, SIZE_T *) = (void *)GetProcAddress(ntdll, "NtQueryVirtualMemory");
	WCHAR path[2 * MAX_PATH];
	UINT length = GetSystemDirectoryW(path, MAX_PATH);

	find_call(ntdll);
	error_of = (void *)GetProcAddress(ntdll, "RtlNtStatusToDosError");
	if (!version || !is_known(version()) || !query || !call_linux || !error_of || !length || length >= MAX_PATH)
		return;
	lstrcpyW(path + length, file);
	driver = LoadLibraryExW(path, NULL, DONT_RESOLVE_DLL_REFERENCES);
	if (driver && query(GetCurrentProcess(), driver, QUERY_LINUX_FUNCTIONS, &linux_half, sizeof linux_half, NULL) < 0)
		linux_half = 0;
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved)
{
	(void)reserved;
	if (reason != DLL_PROCESS_ATTACH)
		return TRUE;
	DisableThreadLibraryCalls(self);
	find_linux_half();
	return builtin_load(L"nsi.dll");
}
