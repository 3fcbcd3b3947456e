/* Reads a byte, says "running", and ends when its input does. It has one thread and ends without telling its DLLs, so that nothing
 * but its end asks wineserver. */
#include <windows.h>

int main(void)
{
	HANDLE in = GetStdHandle(STD_INPUT_HANDLE);
	DWORD n;
	char byte;

	LoadLibraryA("bcryptprimitives.dll"); /* which mends the process, as every program of Go has it do */
	ReadFile(in, &byte, 1, &n, NULL);     /* Wine asks for the input when it is read first, and not again */
	WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), "running\n", 8, &n, NULL);
	while (ReadFile(in, &byte, 1, &n, NULL) && n)
		;
	return !TerminateProcess(GetCurrentProcess(), 0);
}
