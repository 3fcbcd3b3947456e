/* where.exe: shows where files are that match a pattern: in the folder and on the path, or below a folder. Wine's does nothing and reports success.
 * Options and words are those of learn.microsoft.com, where. */
#include <stdio.h>
#include <wchar.h>

#include <windows.h>

enum { ROOM = 32768, DEEPEST = 64 };

static BOOL quiet, quoted;
static int found;

static int refuse(const WCHAR *why)
{
	fwprintf(stderr, L"ERROR: %ls\nType \"WHERE /?\" for usage.\n", why);
	return 2;
}

static int usage(void)
{
	_putws(L"WHERE [/R dir] [/Q] [/F] pattern...\n\nParameter List:\n    /R        Recursively searches and displays the files that match the given pattern starting from the specified directory.\n"
	       L"    /Q        Returns only the exit code, without displaying the list of matched files.\n    /F        Displays the matched filename in double quotes.");
	return 0;
}

/* Shows the files of a folder that match. */
static void in_folder(const WCHAR *folder, const WCHAR *pattern)
{
	size_t length = wcslen(folder);
	WCHAR path[ROOM];
	WIN32_FIND_DATAW data;
	HANDLE list;

	if (length + wcslen(pattern) + MAX_PATH + 2 > ROOM || !length)
		return;
	swprintf(path, ROOM, L"%ls%ls%ls", folder, folder[length - 1] == '\\' ? L"" : L"\\", pattern);
	list = FindFirstFileW(path, &data);
	if (list == INVALID_HANDLE_VALUE)
		return;
	do {
		if (data.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
			continue;
		found++;
		if (!quiet)
			wprintf(quoted ? L"\"%ls%ls%ls\"\n" : L"%ls%ls%ls\n", folder, folder[length - 1] == '\\' ? L"" : L"\\", data.cFileName);
	} while (FindNextFileW(list, &data));
	FindClose(list);
}

/* Shows what matches a pattern, and without an extension what matches it with one of PATHEXT. */
static void with_extensions(const WCHAR *folder, const WCHAR *pattern)
{
	static WCHAR extensions[ROOM];
	WCHAR copy[ROOM], name[MAX_PATH], *extension, *rest;

	in_folder(folder, pattern);
	if (wcschr(pattern, L'.') || wcslen(pattern) + 16 > MAX_PATH || !GetEnvironmentVariableW(L"PATHEXT", extensions, ROOM))
		return;
	wcscpy(copy, extensions);
	for (rest = copy; (extension = rest) && *extension;) {
		if ((rest = wcschr(extension, L';')))
			*rest++ = 0;
		if (wcslen(extension) < 16 && swprintf(name, MAX_PATH, L"%ls%ls", pattern, extension) > 0)
			in_folder(folder, name);
	}
}

static void below(const WCHAR *folder, const WCHAR *pattern, int depth)
{
	WCHAR *path = HeapAlloc(GetProcessHeap(), 0, ROOM * sizeof *path);
	WIN32_FIND_DATAW data;
	HANDLE list;

	with_extensions(folder, pattern);
	if (!path || depth > DEEPEST || wcslen(folder) + MAX_PATH + 2 > ROOM)
		return;
	swprintf(path, ROOM, L"%ls\\*", folder);
	list = FindFirstFileW(path, &data);
	while (list != INVALID_HANDLE_VALUE) {
		if ((data.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) && !(data.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) && wcscmp(data.cFileName, L".") &&
		    wcscmp(data.cFileName, L"..")) {
			swprintf(path, ROOM, L"%ls\\%ls", folder, data.cFileName);
			below(path, pattern, depth + 1);
		}
		if (!FindNextFileW(list, &data))
			break;
	}
	if (list != INVALID_HANDLE_VALUE)
		FindClose(list);
	HeapFree(GetProcessHeap(), 0, path);
}

/* Looks in the present folder, and in those of a variable. */
static void on_path(const WCHAR *variable, const WCHAR *pattern, BOOL here)
{
	WCHAR folders[ROOM], *folder, *rest;

	if (here && GetCurrentDirectoryW(ROOM, folders))
		with_extensions(folders, pattern);
	if (!GetEnvironmentVariableW(variable, folders, ROOM))
		return;
	for (rest = folders; (folder = rest);) {
		if ((rest = wcschr(folder, L';')))
			*rest++ = 0;
		with_extensions(folder, pattern);
	}
}

static void look(WCHAR *pattern)
{
	WCHAR *colon = wcsrchr(pattern, L':');

	if (colon)
		*colon = 0;
	if (*pattern == L'$' && colon)
		on_path(pattern + 1, colon + 1, FALSE);
	else if (colon)
		with_extensions(pattern, colon + 1);
	else
		on_path(L"PATH", pattern, TRUE);
}

int wmain(int argc, WCHAR **argv)
{
	const WCHAR *folder = NULL;
	int i, patterns = 0;

	for (i = 1; i < argc; i++) {
		const WCHAR *o = argv[i] + 1;

		if (*argv[i] != L'/' && *argv[i] != L'-')
			argv[patterns++] = argv[i];
		else if (!_wcsicmp(o, L"?"))
			return usage();
		else if (!_wcsicmp(o, L"q"))
			quiet = TRUE;
		else if (!_wcsicmp(o, L"f"))
			quoted = TRUE;
		else if (!_wcsicmp(o, L"r") && i + 1 < argc)
			folder = argv[++i];
		else
			return refuse(L"Invalid argument or option.");
	}
	if (!patterns)
		return refuse(L"The syntax of the command is incorrect.");
	for (i = 0; i < patterns; i++)
		if (folder)
			below(folder, argv[i], 0);
		else
			look(argv[i]);
	if (found)
		return 0;
	if (!quiet)
		fwprintf(stderr, L"INFO: Could not find files for the given pattern(s).\n");
	return 1;
}
