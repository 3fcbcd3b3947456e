#include "builtin.h"

FARPROC builtin_function[BUILTIN_LAST + 1] __attribute__((used));

/* thunk_N goes on to function N with everything as the caller left it. */
__asm__(".altmacro\n"
	".macro thunk n\n"
	"	.globl thunk_\\n\n"
	"thunk_\\n:\n"
	"	jmp *builtin_function+8*\\n(%rip)\n"
	".endm\n"
	".text\n"
	".set ordinal, 0\n"
	".rept 501\n"
	"	thunk %ordinal\n"
	"	.set ordinal, ordinal+1\n"
	".endr\n"
	".noaltmacro\n");

BOOL builtin_load(const WCHAR *name)
{
	static const WCHAR folder[] = L"\\builtin\\";
	WCHAR path[2 * MAX_PATH];
	UINT length = GetSystemDirectoryW(path, MAX_PATH);
	HMODULE wine;
	UINT_PTR i;

	if (!length || length >= MAX_PATH)
		return FALSE;
	lstrcpyW(path + length, folder);
	lstrcatW(path, name);
	wine = LoadLibraryW(path);
	for (i = 1; wine && i <= BUILTIN_LAST; i++)
		builtin_function[i] = GetProcAddress(wine, (const char *)i);
	return wine != NULL;
}
