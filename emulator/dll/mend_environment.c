/* The environment. Wine 8.0 gives each program variables of its own, by which its libraries find their files (add_dynamic_environment in
 * dlls/ntdll/unix/env.c), and ours say whose a program is by one. A program sees none of them: Windows has none, and what prints its
 * environment, or compares it, would show them. They stay where Wine's libraries look. */
#include "mend.h"
#include "mend_user.h"

#include <string.h>
#include <wchar.h>

/* Names without WINE in front. A # at the end stands for a number. */
static const WCHAR *const hidden[] = { L"ARCH", L"BUILDDIR", L"CONFIGDIR", L"DATADIR", L"DEBUG", L"DLLDIR#", L"DLLOVERRIDES", L"HOMEDIR", L"LOADER", L"LOCALE",
				       L"PREFIX", L"SERVER", L"SYSTEMDLLPATH", L"UNIXCP", L"USERLOCALE", L"USERNAME", L"USERSID", L"XDG_DATA_DIRS" };

static void *strings_original, *strings_a_original, *variable_original, *variable_a_original, *expand_original;

/* Reports whether the length characters are the name of a variable that programs do not see. */
static BOOL is_hidden(const WCHAR *name, size_t length)
{
	static const WCHAR head[] = L"WINE";
	const size_t before = COUNT(head) - 1;
	size_t i, n;

	if (length <= before || _wcsnicmp(name, head, before))
		return FALSE;
	name += before;
	length -= before;
	for (i = 0; i < COUNT(hidden); i++) {
		n = wcslen(hidden[i]);
		if (hidden[i][n - 1] != L'#' ? n == length && !_wcsnicmp(name, hidden[i], n)
					     : length >= n && !_wcsnicmp(name, hidden[i], n - 1) && wcsspn(name + n - 1, L"0123456789") == length - n + 1)
			return TRUE;
	}
	return FALSE;
}

static BOOL is_hidden_a(const char *name, size_t length)
{
	WCHAR wide[32]; /* longer than any of them */
	size_t i;

	if (length >= COUNT(wide))
		return FALSE;
	for (i = 0; i < length; i++)
		wide[i] = (BYTE)name[i];
	wide[length] = 0;
	return is_hidden(wide, length);
}

static WCHAR *WINAPI environment_strings(void)
{
	WCHAR *block = ((WCHAR *(WINAPI *)(void))strings_original)(), *from, *to;

	if (!block)
		return NULL;
	for (from = to = block; *from;) {
		const WCHAR *end = wcschr(from + 1, L'='); /* the names of the drives' folders begin with one */
		size_t length = wcslen(from) + 1;

		if (!end || !is_hidden(from, (size_t)(end - from))) {
			memmove(to, from, length * sizeof(WCHAR));
			to += length;
		}
		from += length;
	}
	*to = 0;
	return block;
}

static char *WINAPI environment_strings_a(void)
{
	char *block = ((char *(WINAPI *)(void))strings_a_original)(), *from, *to;

	if (!block)
		return NULL;
	for (from = to = block; *from;) {
		const char *end = strchr(from + 1, '=');
		size_t length = strlen(from) + 1;

		if (!end || !is_hidden_a(from, (size_t)(end - from))) {
			memmove(to, from, length);
			to += length;
		}
		from += length;
	}
	*to = 0;
	return block;
}

DWORD wine_variable(const WCHAR *name, WCHAR *value, DWORD size)
{
	DWORD(WINAPI *wines)(const WCHAR *, WCHAR *, DWORD) = variable_original ? variable_original : (void *)GetEnvironmentVariableW;

	return wines(name, value, size);
}

static DWORD WINAPI environment_variable(const WCHAR *name, WCHAR *value, DWORD size)
{
	if (name && is_hidden(name, wcslen(name))) {
		SetLastError(ERROR_ENVVAR_NOT_FOUND);
		return 0;
	}
	return wine_variable(name, value, size);
}

static DWORD WINAPI environment_variable_a(const char *name, char *value, DWORD size)
{
	if (name && is_hidden_a(name, strlen(name))) {
		SetLastError(ERROR_ENVVAR_NOT_FOUND);
		return 0;
	}
	return ((DWORD(WINAPI *)(const char *, char *, DWORD))variable_a_original)(name, value, size);
}

/* cmd.exe has each of its variables expanded alone. One that is not there stays as it is. */
static DWORD WINAPI expand(const WCHAR *text, WCHAR *to, DWORD size)
{
	size_t length = text ? wcslen(text) : 0;

	if (length > 2 && text[0] == L'%' && text[length - 1] == L'%' && is_hidden(text + 1, length - 2)) {
		if (to && length < size)
			wcscpy(to, text);
		return (DWORD)length + 1;
	}
	return ((DWORD(WINAPI *)(const WCHAR *, WCHAR *, DWORD))expand_original)(text, to, size);
}

static BOOL shows_wine(void) { return TRUE; } /* every Wine does */

#define SHOWN "programs see Wine's variables"

struct mend environment_mends[] = {
	{ "GetEnvironmentStringsW", SHOWN, (void *)environment_strings, &strings_original, shows_wine, FALSE },
	{ "GetEnvironmentStringsA", SHOWN, (void *)environment_strings_a, &strings_a_original, shows_wine, FALSE },
	{ "GetEnvironmentVariableW", SHOWN, (void *)environment_variable, &variable_original, shows_wine, FALSE },
	{ "GetEnvironmentVariableA", SHOWN, (void *)environment_variable_a, &variable_a_original, shows_wine, FALSE },
	{ "ExpandEnvironmentStringsW", SHOWN, (void *)expand, &expand_original, shows_wine, FALSE },
	{ 0 },
};
