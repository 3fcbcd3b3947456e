/* bindfltapi.dll, which Wine does not have: the bind filter, by which one folder of Windows shows another's content. There are no such
 * mappings here, so that none can be made, removed or listed. containerd.exe and hcsshim ask for them in each container's life
 * (go-winio, pkg/bindfilter). */
#include <windows.h>

#define API __declspec(dllexport) HRESULT WINAPI

API BfSetupFilter(HANDLE job, ULONG flags, const WCHAR *root, const WCHAR *target, const WCHAR **except, ULONG count)
{
	(void)job, (void)flags, (void)root, (void)target, (void)except, (void)count;
	return HRESULT_FROM_WIN32(ERROR_NOT_SUPPORTED);
}

API BfRemoveMapping(HANDLE job, const WCHAR *root)
{
	(void)job, (void)root;
	return HRESULT_FROM_WIN32(ERROR_NOT_FOUND);
}

/* The answer is a head {size, status, number of mappings} and the mappings. */
API BfGetMappings(ULONG flags, HANDLE job, const WCHAR *root, void *user, ULONG *size, ULONG *answer)
{
	const ULONG head = 3 * sizeof *answer;
	ULONG room;

	(void)flags, (void)job, (void)root, (void)user;
	if (!size || !answer)
		return E_INVALIDARG;
	room = *size;
	*size = head;
	if (room < head)
		return HRESULT_FROM_WIN32(ERROR_INSUFFICIENT_BUFFER);
	answer[0] = head;
	answer[1] = answer[2] = 0;
	return S_OK;
}
