/* virtdisk.dll: the disks of containers' layers (hcsshim, internal/wclayer/expandscratchsize.go), which hcsd has
 * (emulator/hcsd/layers/disk_linux.go). Wine knows no version 2 of what a disk is opened with, and attaches none. Every other function is Wine's. */
#include "wire.h"
#include "builtin.h"

#include <string.h>
#include <wchar.h>

#include <virtdisk.h>

#define API DWORD WINAPI

enum { LONGEST = 1024 };

typedef DWORD(WINAPI *open_disk)(VIRTUAL_STORAGE_TYPE *, const WCHAR *, VIRTUAL_DISK_ACCESS_MASK, OPEN_VIRTUAL_DISK_FLAG, OPEN_VIRTUAL_DISK_PARAMETERS *,
				 HANDLE *);
enum { OPEN_OF_WINE = 18 }; /* ordinal */

/* The handle is that of the disk's file. */
API open_virtual_disk(VIRTUAL_STORAGE_TYPE *type, const WCHAR *path, VIRTUAL_DISK_ACCESS_MASK access, OPEN_VIRTUAL_DISK_FLAG flags,
		    OPEN_VIRTUAL_DISK_PARAMETERS *p, HANDLE *handle)
{
	HANDLE file;

	if (!p || p->Version != OPEN_VIRTUAL_DISK_VERSION_2)
		return ((open_disk)(void *)builtin_function[OPEN_OF_WINE])(type, path, access, flags, p, handle);
	if (!type || !path || !handle || access) /* version 2 has no access mask (Microsoft, OpenVirtualDisk) */
		return ERROR_INVALID_PARAMETER;
	file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return GetLastError();
	*handle = file;
	return ERROR_SUCCESS;
}

/* Makes one call of hcsd. */
static HRESULT call(const WCHAR *function, const WCHAR *path)
{
	struct call c = { OP_HCS, 0, NULL, { function, path, L"" } };
	HRESULT hr = HRESULT_FROM_WIN32(ERROR_NOT_SUPPORTED); /* without HCS there are no layers */
	int wire = wire_open_at(HCSD_PORT, "HCSD_ADDR");

	if (wire == NO_WIRE)
		return hr;
	if (wire_send(wire, &c) != 0 || wire_receive(wire, &c, &hr) != 0)
		hr = RPC_CALL_FAILED;
	wire_close(wire);
	wire_free(c.out[0]);
	wire_free(c.out[1]);
	return hr;
}

API attach_virtual_disk(HANDLE handle, PSECURITY_DESCRIPTOR security, ATTACH_VIRTUAL_DISK_FLAG flags, ULONG provider, ATTACH_VIRTUAL_DISK_PARAMETERS *p,
		      OVERLAPPED *overlapped)
{
	static const WCHAR head[] = L"\\\\?\\";
	const size_t n = sizeof head / sizeof *head - 1;
	WCHAR path[LONGEST], *start = path;
	DWORD length = GetFinalPathNameByHandleW(handle, path, LONGEST, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
	HRESULT hr;

	(void)security, (void)provider, (void)p;
	if (flags || overlapped)
		return ERROR_NOT_SUPPORTED;
	if (!length || length >= LONGEST)
		return ERROR_INVALID_HANDLE;
	if (!wcsncmp(path, head, n))
		start += n;
	hr = call(L"AttachVirtualDisk", start);
	return FAILED(hr) ? (DWORD)HRESULT_CODE(hr) : ERROR_SUCCESS;
}

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, void *reserved)
{
	(void)reserved;
	if (reason == DLL_PROCESS_ATTACH)
		DisableThreadLibraryCalls(instance);
	return reason != DLL_PROCESS_ATTACH || builtin_load(L"virtdisk.dll");
}
