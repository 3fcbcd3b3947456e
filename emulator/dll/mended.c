/* Says which mends do not fit the Wine that it runs with: a line with their number, and one for each, as porthole_unfit
 * of bcryptprimitives.dll has it (mend.c). It needs neither a prefix that Wine has made nor anything of a host
 * (emulator/wine/fit_linux.go).
 *
 * In such a prefix Wine finds its own libraries only for what a program begins with, and only by their names in small
 * letters. So this one begins with advapi32.dll, which the DLL needs, under that name (build.sh). */
#include <windows.h>

#include <stdio.h>

int main(void)
{
	HMODULE dll = LoadLibraryW(L"bcryptprimitives.dll");
	int (*unfit)(char *, int) = dll ? (void *)GetProcAddress(dll, "porthole_unfit") : NULL;
	static char text[16384];
	int count;

	RegCloseKey(NULL); /* of advapi32.dll */
	if (!unfit) {
		fprintf(stderr, "bcryptprimitives.dll is not ours (error %lu)\n", GetLastError());
		return 1;
	}
	count = unfit(text, sizeof text);
	printf("unfit %d\n%s", count, text);
	return 0;
}
