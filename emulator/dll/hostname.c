/* hostname.exe: prints the host's name as Windows' does. Wine's prints the NetBIOS name: 15 characters, in capitals. */
#include <winsock2.h>

#include <stdio.h>

int main(void)
{
	WSADATA data;
	char name[256]; /* enough for any name: gethostname, Windows Sockets 2 */

	if (WSAStartup(MAKEWORD(2, 2), &data) || gethostname(name, sizeof name)) {
		fprintf(stderr, "hostname: error %d\n", WSAGetLastError());
		return 1;
	}
	puts(name);
	return 0;
}
