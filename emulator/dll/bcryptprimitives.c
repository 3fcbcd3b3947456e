/* bcryptprimitives.dll: what Go's runtime needs and Wine before 10 lacks. Since every Go program loads it before its own code
 * runs, it is also the place for what is done in every process and thread. */
#include <windows.h>

#include "mend.h"
#include "stack.h"

BOOLEAN WINAPI SystemFunction036(PVOID buffer, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
	while (size > 0) {
		ULONG part = size > 0x10000 ? 0x10000 : (ULONG)size;
		if (!SystemFunction036(data, part))
			return FALSE;
		data += part;
		size -= part;
	}
	return TRUE;
}

BOOL WINAPI DllMain(HINSTANCE dll, DWORD reason, void *reserved)
{
	(void)dll;
	(void)reserved;
	if (reason == DLL_PROCESS_ATTACH)
		mend_all();
	if (reason == DLL_THREAD_ATTACH && mend_on[MEND_STACK])
		stack_begins();
	return TRUE;
}
