/* ipconfig.exe in place of Wine's, which shows no DNS servers, search lists and masks, and shows the loopback. The labels are those of
 * Windows in English, because scripts and tests look for them. */
#define _WIN32_WINNT 0x0a00
#include <winsock2.h>

#include <ws2tcpip.h>

#include <iphlpapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { LABEL = 34, CHARS = 2048 };

static const WCHAR tcpip[] = L"SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters";

/* Prints "   Label . . . . : value" with the dots where Windows has them: in every second column, and for labels that end in "Suffix"
 * not in the first. Without a label the value is below the one before. */
static void line(const char *label, const WCHAR *value)
{
	int i, length = (int)strlen(label), first = length;

	if (length > 6 && !strcmp(label + length - 6, "Suffix"))
		first = length + 1;
	printf("   %s", label);
	for (i = length; i < LABEL; i++)
		putchar(length && i >= first && i % 2 == 0 ? '.' : ' ');
	printf("%s %ls\n", length ? ":" : " ", value);
}

/* Prints the first value with the label, the others below it. */
static void next(const char **label, const WCHAR *value)
{
	line(*label, value);
	*label = "";
}

static BOOL address_text(const SOCKET_ADDRESS *a, WCHAR *text, DWORD size)
{
	return !GetNameInfoW(a->lpSockaddr, a->iSockaddrLength, text, size, NULL, 0, NI_NUMERICHOST);
}

/* Reads a list of domains, separated by commas or spaces, and prints those that are not in seen yet. */
static void domains(HKEY root, const WCHAR *path, const char **label, WCHAR *seen)
{
	WCHAR text[CHARS] = { 0 }, *word, quoted[CHARS + 2];
	DWORD size = sizeof text - sizeof *text;

	if (RegGetValueW(root, path, L"SearchList", RRF_RT_REG_SZ, NULL, text, &size))
		return;
	for (word = wcstok(text, L", "); word; word = wcstok(NULL, L", ")) {
		swprintf(quoted, CHARS, L",%ls,", word);
		if (wcsstr(seen, quoted) || wcslen(seen) + wcslen(quoted) >= CHARS)
			continue;
		wcscat(seen, quoted);
		next(label, word);
	}
}

/* The host's own list, and those of its adapters. */
static void search_list(void)
{
	const char *label = "DNS Suffix Search List";
	WCHAR seen[CHARS] = { 0 }, name[MAX_PATH];
	HKEY key, adapters;
	DWORD i;

	if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, tcpip, 0, KEY_READ, &key))
		return;
	domains(key, NULL, &label, seen);
	if (!RegOpenKeyExW(key, L"Interfaces", 0, KEY_READ, &adapters)) {
		for (i = 0; !RegEnumKeyW(adapters, i, name, MAX_PATH); i++)
			domains(adapters, name, &label, seen);
		RegCloseKey(adapters);
	}
	RegCloseKey(key);
}

static void host(BOOL all)
{
	static const WCHAR *const kinds[] = { L"Unknown", L"Broadcast", L"Peer-Peer", L"Unknown", L"Mixed", L"Unknown", L"Unknown", L"Unknown", L"Hybrid" };
	static BYTE info[16384];
	FIXED_INFO *f = (FIXED_INFO *)info;
	ULONG size = sizeof info;
	WCHAR text[CHARS];

	printf("\nWindows IP Configuration\n\n");
	if (!all || GetNetworkParams(f, &size))
		return;
	swprintf(text, CHARS, L"%hs", f->HostName);
	line("Host Name", text);
	swprintf(text, CHARS, L"%hs", f->DomainName);
	line("Primary Dns Suffix", text);
	line("Node Type", f->NodeType < sizeof kinds / sizeof *kinds ? kinds[f->NodeType] : L"Unknown");
	line("IP Routing Enabled", f->EnableRouting ? L"Yes" : L"No");
	line("WINS Proxy Enabled", f->EnableProxy ? L"Yes" : L"No");
	search_list();
	printf("\n");
}

static void addresses(const IP_ADAPTER_ADDRESSES *a, BOOL all)
{
	const IP_ADAPTER_UNICAST_ADDRESS *u;
	WCHAR text[CHARS];
	ULONG mask;

	for (u = a->FirstUnicastAddress; u; u = u->Next) {
		const struct sockaddr_in6 *six = (void *)u->Address.lpSockaddr;
		BOOL is_six = u->Address.lpSockaddr->sa_family == AF_INET6;

		if (!address_text(&u->Address, text, CHARS - 16))
			continue;
		if (all)
			wcscat(text, L"(Preferred) ");
		line(!is_six ? "IPv4 Address" : IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) ? "Link-local IPv6 Address" : "IPv6 Address", text);
		if (is_six)
			continue;
		mask = u->OnLinkPrefixLength ? ~0u << (32 - u->OnLinkPrefixLength) : 0;
		swprintf(text, CHARS, L"%lu.%lu.%lu.%lu", mask >> 24, mask >> 16 & 255, mask >> 8 & 255, mask & 255);
		line("Subnet Mask", text);
	}
}

static void adapter(const IP_ADAPTER_ADDRESSES *a, BOOL all)
{
	const IP_ADAPTER_DNS_SERVER_ADDRESS *d;
	const IP_ADAPTER_GATEWAY_ADDRESS *g;
	const char *label;
	WCHAR text[CHARS] = { 0 };
	ULONG i;

	printf("Ethernet adapter %ls:\n\n", a->FriendlyName);
	if (a->OperStatus != IfOperStatusUp)
		line("Media State", L"Media disconnected");
	line("Connection-specific DNS Suffix", a->DnsSuffix);
	if (all) {
		line("Description", a->Description);
		for (i = 0; i < a->PhysicalAddressLength; i++)
			swprintf(text + wcslen(text), CHARS - wcslen(text), i ? L"-%02X" : L"%02X", a->PhysicalAddress[i]);
		line("Physical Address", text);
		line("DHCP Enabled", a->Flags & IP_ADAPTER_DHCP_ENABLED ? L"Yes" : L"No");
		line("Autoconfiguration Enabled", L"Yes");
	}
	if (a->OperStatus == IfOperStatusUp) {
		addresses(a, all);
		label = "Default Gateway";
		for (g = a->FirstGatewayAddress; g; g = g->Next)
			if (address_text(&g->Address, text, CHARS))
				next(&label, text);
		if (!a->FirstGatewayAddress)
			line(label, L"");
		label = "DNS Servers";
		for (d = a->FirstDnsServerAddress; all && d; d = d->Next)
			if (address_text(&d->Address, text, CHARS))
				next(&label, text);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	static BYTE info[262144];
	IP_ADAPTER_ADDRESSES *a = (IP_ADAPTER_ADDRESSES *)info;
	ULONG size = sizeof info, error;
	WSADATA data;
	BOOL all = argc == 2 && (!_stricmp(argv[1], "/all") || !_stricmp(argv[1], "-all"));

	if (argc > 1 && !all) { /* /release, /renew and the others change or show what an emulated host does not have */
		printf("\nUSAGE:\n    ipconfig [/all]\n");
		return 1;
	}
	WSAStartup(MAKEWORD(2, 2), &data);
	host(all);
	error = GetAdaptersAddresses(AF_UNSPEC, GAA_FLAG_INCLUDE_GATEWAYS, NULL, a, &size);
	if (error) {
		printf("An internal error occurred: error %lu\n", error);
		return 1;
	}
	for (; a; a = a->Next)
		if (a->IfType != IF_TYPE_SOFTWARE_LOOPBACK)
			adapter(a, all);
	return 0;
}
