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

extern const BYTE __ImageBase[]; /* of the linker: where this DLL lies in memory */

/* Finds a table of this DLL. The addresses in its headers are counted from its begin. */
static const void *table(DWORD address) { return __ImageBase + address; }

/* Fills builtin_function by the names that this DLL's own list of exports has for each ordinal: Wine numbers functions
 * that have no number on Windows anew with each version. What has no name keeps its ordinal. */
static void fill(HMODULE wine)
{
	const IMAGE_NT_HEADERS *headers = table((DWORD)((const IMAGE_DOS_HEADER *)(const void *)__ImageBase)->e_lfanew);
	const IMAGE_DATA_DIRECTORY *exports = &headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT];
	const IMAGE_EXPORT_DIRECTORY *list = table(exports->VirtualAddress);
	const DWORD *names = table(list->AddressOfNames);
	const WORD *places = table(list->AddressOfNameOrdinals);
	UINT_PTR i, ordinal;

	for (i = 1; i <= BUILTIN_LAST; i++)
		builtin_function[i] = GetProcAddress(wine, (const char *)i);
	for (i = 0; i < list->NumberOfNames; i++) {
		ordinal = list->Base + places[i];
		if (ordinal <= BUILTIN_LAST)
			builtin_function[ordinal] = GetProcAddress(wine, table(names[i]));
	}
}

BOOL builtin_load(const WCHAR *name)
{
	static const WCHAR folder[] = L"\\builtin\\";
	WCHAR path[2 * MAX_PATH];
	UINT length = GetSystemDirectoryW(path, MAX_PATH);
	HMODULE wine;

	if (!length || length >= MAX_PATH)
		return FALSE;
	lstrcpyW(path + length, folder);
	lstrcatW(path, name);
	wine = LoadLibraryW(path);
	if (wine)
		fill(wine);
	return wine != NULL;
}
