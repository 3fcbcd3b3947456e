/* Other DLLs than nsi.dll say here that adapters or addresses of the host may have changed. */
#ifndef FORGET_H
#define FORGET_H

#include <winsock2.h> /* before windows.h, which it brings along */

/* Makes nsi.dll ask hnsd again (adapters.h), if the program has loaded it. */
static inline void forget_adapters(void)
{
	HMODULE nsi = GetModuleHandleW(L"nsi.dll");
	void (*forget)(void) = nsi ? (void (*)(void))(void *)GetProcAddress(nsi, "adapters_forget") : NULL;

	if (forget)
		forget();
}

#endif
