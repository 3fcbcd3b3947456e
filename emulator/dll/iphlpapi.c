/* iphlpapi.dll: the route and address functions of the IP helper library that Wine 8.0 lacks, its change notifications, which
 * Wine 8.0 accepts and never sends, and the DNS servers of the host. hnsd does the work; everything else is forwarded to Wine's
 * library (iphlpapi.def). */
#include "forget.h"
#include "servers.h"

#include <ws2tcpip.h>

#include <iphlpapi.h>
#include <netioapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS 500
#define ADDRESS_CHARS 64

static FARPROC wine(const char *name)
{
	static HMODULE library;

	if (!library)
		library = LoadLibraryW(L"wineiphl.dll");
	return library ? GetProcAddress(library, name) : NULL;
}

static DWORD win32_error(HRESULT hr)
{
	if (SUCCEEDED(hr))
		return NO_ERROR;
	return HRESULT_FACILITY(hr) == FACILITY_WIN32 ? HRESULT_CODE(hr) : ERROR_GEN_FAILURE;
}

static NET_IFINDEX index_of(const NET_LUID *luid, NET_IFINDEX otherwise)
{
	DWORD (WINAPI *convert)(const NET_LUID *, NET_IFINDEX *) = (void *)wine("ConvertInterfaceLuidToIndex");
	NET_IFINDEX index = 0;

	if (luid->Value && convert && convert(luid, &index) == NO_ERROR)
		return index;
	return otherwise;
}

static void luid_of(NET_IFINDEX index, NET_LUID *luid)
{
	DWORD (WINAPI *convert)(NET_IFINDEX, NET_LUID *) = (void *)wine("ConvertInterfaceIndexToLuid");

	if (convert)
		convert(index, luid);
}

static int print_address(const SOCKADDR_INET *a, WCHAR *text)
{
	const void *bytes = a->si_family == AF_INET6 ? (const void *)&a->Ipv6.sin6_addr : (const void *)&a->Ipv4.sin_addr;

	return (a->si_family == AF_INET || a->si_family == AF_INET6) && InetNtopW(a->si_family, bytes, text, ADDRESS_CHARS);
}

/* Reads an address, and the length behind a slash if there is one. */
static void parse_address(const WCHAR *text, SOCKADDR_INET *a, UINT8 *length)
{
	WCHAR copy[ADDRESS_CHARS], *slash;

	memset(a, 0, sizeof *a);
	if (!text || wcslen(text) >= ADDRESS_CHARS)
		return;
	wcscpy(copy, text);
	slash = wcschr(copy, L'/');
	if (slash) {
		*slash = 0;
		*length = (UINT8)wcstoul(slash + 1, NULL, 10);
	}
	a->si_family = wcschr(copy, L':') ? AF_INET6 : AF_INET;
	if (a->si_family == AF_INET6)
		InetPtonW(AF_INET6, copy, &a->Ipv6.sin6_addr);
	else
		InetPtonW(AF_INET, copy, &a->Ipv4.sin_addr);
}

static BOOL same_address(const SOCKADDR_INET *a, const SOCKADDR_INET *b)
{
	if (a->si_family != b->si_family)
		return FALSE;
	if (a->si_family == AF_INET6)
		return memcmp(&a->Ipv6.sin6_addr, &b->Ipv6.sin6_addr, sizeof a->Ipv6.sin6_addr) == 0;
	return a->Ipv4.sin_addr.s_addr == b->Ipv4.sin_addr.s_addr;
}

static DWORD change_route(const WCHAR *verb, const MIB_IPFORWARD_ROW2 *row)
{
	WCHAR prefix[ADDRESS_CHARS + 8], hop[ADDRESS_CHARS];
	struct call c = { OP_ROUTE, 0, NULL, { verb, prefix, hop } };
	DWORD result;

	if (!row || !print_address(&row->DestinationPrefix.Prefix, prefix) || !print_address(&row->NextHop, hop))
		return ERROR_INVALID_PARAMETER;
	swprintf(prefix + wcslen(prefix), 8, L"/%u", row->DestinationPrefix.PrefixLength);
	c.handle = (uint64_t)row->Metric << 32 | index_of(&row->InterfaceLuid, row->InterfaceIndex);
	result = win32_error(wire_call(&c));
	wire_free(c.out[0]);
	wire_free(c.out[1]);
	return result;
}

VOID WINAPI InitializeIpForwardEntry(MIB_IPFORWARD_ROW2 *row)
{
	memset(row, 0, sizeof *row);
	row->ValidLifetime = row->PreferredLifetime = 0xffffffff;
	row->Metric = 0xffffffff;
	row->Protocol = MIB_IPPROTO_NETMGMT;
	row->Loopback = row->AutoconfigureAddress = row->Publish = row->Immortal = TRUE;
}

DWORD WINAPI CreateIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route(L"create", row); }

DWORD WINAPI SetIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route(L"set", row); }

DWORD WINAPI DeleteIpForwardEntry2(const MIB_IPFORWARD_ROW2 *row) { return change_route(L"delete", row); }

static DWORD change_address(const WCHAR *verb, const MIB_UNICASTIPADDRESS_ROW *row)
{
	WCHAR address[ADDRESS_CHARS + 8];
	struct call c = { OP_ADDRESS, 0, NULL, { verb, address } };
	unsigned length;
	DWORD result;

	if (!row || !print_address(&row->Address, address))
		return ERROR_INVALID_PARAMETER;
	/* 255, as InitializeUnicastIpAddressEntry leaves it, is the address alone. */
	length = row->Address.si_family == AF_INET6 ? 128 : 32;
	if (row->OnLinkPrefixLength < length)
		length = row->OnLinkPrefixLength;
	swprintf(address + wcslen(address), 8, L"/%u", length);
	c.handle = index_of(&row->InterfaceLuid, row->InterfaceIndex);
	result = win32_error(wire_call(&c));
	forget_adapters();
	wire_free(c.out[0]);
	wire_free(c.out[1]);
	return result;
}

VOID WINAPI InitializeUnicastIpAddressEntry(MIB_UNICASTIPADDRESS_ROW *row)
{
	memset(row, 0, sizeof *row);
	row->PrefixOrigin = IpPrefixOriginUnchanged;
	row->SuffixOrigin = IpSuffixOriginUnchanged;
	row->ValidLifetime = row->PreferredLifetime = 0xffffffff;
	row->OnLinkPrefixLength = 255;
}

DWORD WINAPI CreateUnicastIpAddressEntry(const MIB_UNICASTIPADDRESS_ROW *row) { return change_address(L"create", row); }

DWORD WINAPI DeleteUnicastIpAddressEntry(const MIB_UNICASTIPADDRESS_ROW *row) { return change_address(L"delete", row); }

VOID WINAPI InitializeIpInterfaceEntry(MIB_IPINTERFACE_ROW *row)
{
	memset(row, 0, sizeof *row);
	row->Metric = row->NlMtu = 0xffffffff;
	row->SitePrefixLength = 0xff;
}

static DWORD interface_entry(const WCHAR *verb, struct call *c, MIB_IPINTERFACE_ROW *row, uint32_t flags)
{
	DWORD result;

	c->op = OP_INTERFACE;
	c->text[0] = verb;
	c->text[1] = row->Family == AF_INET6 ? L"ipv6" : L"ipv4";
	row->InterfaceIndex = index_of(&row->InterfaceLuid, row->InterfaceIndex);
	c->handle = (uint64_t)flags << 32 | row->InterfaceIndex;
	result = win32_error(wire_call(c));
	wire_free(c->out[0]);
	wire_free(c->out[1]);
	return result;
}

static BOOL names_interface(const MIB_IPINTERFACE_ROW *row)
{
	return row && (row->Family == AF_INET || row->Family == AF_INET6) && (row->InterfaceLuid.Value || row->InterfaceIndex);
}

static ULONG metric_of(NET_IFINDEX index)
{
	const struct adapter *at;
	struct adapters a;
	ULONG metric = 15;

	if (!adapters_read(&a))
		return metric;
	at = adapter_with_index(&a, index);
	if (at)
		metric = at->metric;
	adapters_free(&a);
	return metric;
}

/* Settings that hnsd does not have are those of a new adapter of Windows Server. */
DWORD WINAPI GetIpInterfaceEntry(MIB_IPINTERFACE_ROW *row)
{
	struct call c = { 0 };
	MIB_IPINTERFACE_ROW out;
	DWORD result;

	if (!names_interface(row))
		return ERROR_INVALID_PARAMETER;
	result = interface_entry(L"get", &c, row, 0);
	if (result != NO_ERROR)
		return result;
	memset(&out, 0, sizeof out);
	out.Family = row->Family;
	out.InterfaceIndex = row->InterfaceIndex;
	luid_of(out.InterfaceIndex, &out.InterfaceLuid);
	out.NlMtu = (ULONG)c.handle;
	out.ForwardingEnabled = (c.handle >> 32 & FLAG_FORWARDING) != 0;
	out.UseAutomaticMetric = out.UseNeighborUnreachabilityDetection = out.Connected = out.SupportsNeighborDiscovery = TRUE;
	out.Metric = metric_of(out.InterfaceIndex);
	out.DadTransmits = 3;
	out.BaseReachableTime = out.ReachableTime = 30000;
	out.RetransmitTime = 1000;
	/* Windows returns 64 for IPv4 too, and SetIpInterfaceEntry does not accept it. */
	out.SitePrefixLength = 64;
	*row = out;
	return NO_ERROR;
}

/* One row for each family of each adapter with IP. The caller frees it with FreeMibTable, which is Wine's. */
DWORD WINAPI GetIpInterfaceTable(ADDRESS_FAMILY family, MIB_IPINTERFACE_TABLE **table)
{
	static const ADDRESS_FAMILY families[] = { AF_INET, AF_INET6 };
	struct adapters a;
	UINT i, f;

	if (!table || (family != AF_UNSPEC && family != AF_INET && family != AF_INET6))
		return ERROR_INVALID_PARAMETER;
	if (!adapters_read(&a))
		return ERROR_NOT_SUPPORTED;
	*table = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof **table + 2 * a.count * sizeof *(*table)->Table);
	for (f = 0; *table && f < 2; f++)
		for (i = 0; i < a.count; i++) {
			MIB_IPINTERFACE_ROW *row = &(*table)->Table[(*table)->NumEntries];
			row->Family = families[f];
			row->InterfaceIndex = a.list[i].index;
			if (a.list[i].bound && (family == AF_UNSPEC || family == families[f]) && GetIpInterfaceEntry(row) == NO_ERROR)
				(*table)->NumEntries++;
		}
	adapters_free(&a);
	return *table ? NO_ERROR : ERROR_NOT_ENOUGH_MEMORY;
}

/* Takes cards without IP out of the list. The first one is where the caller looks for it. */
static void leave_out(IP_ADAPTER_ADDRESSES *list, const struct adapters *known)
{
	IP_ADAPTER_ADDRESSES **next = &list->Next;
	const struct adapter *a;

	while (*next) {
		a = adapter_with_luid(known, (*next)->Luid.Value);
		if (a && !a->bound)
			*next = (*next)->Next;
		else
			next = &(*next)->Next;
	}
	a = adapter_with_luid(known, list->Luid.Value);
	if (a && !a->bound && list->Next)
		*list = *list->Next;
}

/* Reports whether a default route through the adapter has that next hop. */
static BOOL is_gateway(const MIB_IPFORWARD_TABLE2 *routes, const IP_ADAPTER_ADDRESSES *at, const SOCKET_ADDRESS *hop)
{
	const SOCKADDR_INET *a = (const SOCKADDR_INET *)hop->lpSockaddr;
	ULONG i;

	for (i = 0; routes && i < routes->NumEntries; i++) {
		const MIB_IPFORWARD_ROW2 *r = &routes->Table[i];
		if (r->InterfaceLuid.Value == at->Luid.Value && !r->DestinationPrefix.PrefixLength && same_address(&r->NextHop, a))
			return TRUE;
	}
	return FALSE;
}

/* Wine lists the next hop of every route as a gateway. */
static void default_gateways(IP_ADAPTER_ADDRESSES *list)
{
	DWORD (WINAPI *get)(ADDRESS_FAMILY, MIB_IPFORWARD_TABLE2 **) = (void *)wine("GetIpForwardTable2");
	void (WINAPI *release)(void *) = (void *)wine("FreeMibTable");
	MIB_IPFORWARD_TABLE2 *routes;

	if (!get || !release || get(AF_UNSPEC, &routes) != NO_ERROR)
		return;
	for (; list; list = list->Next) {
		IP_ADAPTER_GATEWAY_ADDRESS **next = &list->FirstGatewayAddress;
		while (*next)
			if (is_gateway(routes, list, &(*next)->Address))
				next = &(*next)->Next;
			else
				*next = (*next)->Next;
	}
	release(routes);
}

static ULONG wine_adapters(ULONG family, ULONG flags, IP_ADAPTER_ADDRESSES *list, ULONG *size)
{
	ULONG (WINAPI *get)(ULONG, ULONG, void *, IP_ADAPTER_ADDRESSES *, ULONG *) = (void *)wine("GetAdaptersAddresses");

	return get ? get(family, flags, NULL, list, size) : ERROR_NOT_SUPPORTED;
}

/* Has Wine list the adapters. Servers of the host's own take the place of those that Wine would list, behind Wine's answer. */
static ULONG list_adapters(const struct adapters *known, ULONG family, ULONG flags, IP_ADAPTER_ADDRESSES *list, ULONG *size)
{
	ULONG room = servers_room(known), theirs, result;

	if (!known->own_servers || flags & GAA_FLAG_SKIP_DNS_SERVER)
		return wine_adapters(family, flags, list, size);
	theirs = list && *size > room ? *size - room : 0;
	result = wine_adapters(family, flags | GAA_FLAG_SKIP_DNS_SERVER, theirs ? list : NULL, &theirs);
	if (result == ERROR_SUCCESS)
		servers_add(known, family, list, (BYTE *)list + theirs);
	if (result == ERROR_BUFFER_OVERFLOW)
		*size = theirs + room;
	return result;
}

/* Wine knows no metrics of interfaces, and lists adapters without IP always. */
/* Returns the place of an adapter in Windows' order. What Windows does not show comes last. */
static UINT place_of_adapter(const struct adapters *known, const IP_ADAPTER_ADDRESSES *at)
{
	const struct adapter *a = adapter_with_luid(known, at->Luid.Value);

	return a ? (UINT)(a - known->list) : known->count;
}

/* Puts the list into Windows' order: Wine 10.0 sorts it by the metrics of routes. The first one stays at the begin of
 * the caller's memory, so that what the adapters say moves, and they do not. */
static void put_in_order(IP_ADAPTER_ADDRESSES *list, const struct adapters *known)
{
	IP_ADAPTER_ADDRESSES *at, *other, *next, *other_next, said;

	for (at = list; at; at = at->Next)
		for (other = at->Next; other; other = other->Next) {
			if (place_of_adapter(known, other) >= place_of_adapter(known, at))
				continue;
			next = at->Next;
			other_next = other->Next;
			said = *at;
			*at = *other;
			*other = said;
			at->Next = next;
			other->Next = other_next;
		}
}

ULONG WINAPI GetAdaptersAddresses(ULONG family, ULONG flags, void *reserved, IP_ADAPTER_ADDRESSES *list, ULONG *size)
{
	IP_ADAPTER_ADDRESSES *at;
	struct adapters known;
	ULONG result;

	(void)reserved;
	if (!size || !adapters_read(&known))
		return wine_adapters(family, flags, list, size);
	result = list_adapters(&known, family, flags, list, size);
	if (result == ERROR_SUCCESS && list) {
		put_in_order(list, &known);
		if (!(flags & GAA_FLAG_INCLUDE_ALL_INTERFACES))
			leave_out(list, &known);
		for (at = list; at; at = at->Next) {
			const struct adapter *a = adapter_with_luid(&known, at->Luid.Value);
			if (a)
				at->Ipv4Metric = at->Ipv6Metric = a->metric;
		}
		if (flags & GAA_FLAG_INCLUDE_GATEWAYS)
			default_gateways(list);
	}
	adapters_free(&known);
	return result;
}

/* Servers of the host's own take the place of those that Wine lists. */
DWORD WINAPI GetNetworkParams(FIXED_INFO *info, ULONG *size)
{
	DWORD (WINAPI *get)(FIXED_INFO *, ULONG *) = (void *)wine("GetNetworkParams");
	struct adapters known;
	ULONG room, theirs;
	DWORD result;

	if (!get)
		return ERROR_NOT_SUPPORTED;
	if (!size || !adapters_read(&known))
		return get(info, size);
	room = known.own_servers ? servers_params_room(&known) : 0;
	theirs = info && *size > room ? *size - room : 0;
	result = get(theirs ? info : NULL, &theirs);
	if (result == NO_ERROR || result == ERROR_BUFFER_OVERFLOW)
		*size = theirs + room;
	if (result == NO_ERROR && known.own_servers)
		servers_params_set(&known, info);
	adapters_free(&known);
	return result;
}

/* Only forwarding can be changed. A prefix longer than addresses of the family is refused: a row for IPv4 as
 * GetIpInterfaceEntry left it (learn.microsoft.com, SetIpInterfaceEntry: SitePrefixLength must be 0 for IPv4). */
DWORD WINAPI SetIpInterfaceEntry(MIB_IPINTERFACE_ROW *row)
{
	struct call c = { 0 };

	if (!names_interface(row) || row->SitePrefixLength > (row->Family == AF_INET ? 32u : 128u))
		return ERROR_INVALID_PARAMETER;
	if (row->DisableDefaultRoutes || row->AdvertisingEnabled)
		return ERROR_NOT_SUPPORTED;
	return interface_entry(L"set", &c, row, row->ForwardingEnabled ? FLAG_FORWARDING : 0);
}

/* A row is found by interface, destination and next hop. */
DWORD WINAPI GetIpForwardEntry2(MIB_IPFORWARD_ROW2 *row)
{
	DWORD (WINAPI *get)(ADDRESS_FAMILY, MIB_IPFORWARD_TABLE2 **) = (void *)wine("GetIpForwardTable2");
	void (WINAPI *release)(void *) = (void *)wine("FreeMibTable");
	MIB_IPFORWARD_TABLE2 *table;
	NET_IFINDEX index;
	DWORD result;
	ULONG i;

	if (!row)
		return ERROR_INVALID_PARAMETER;
	if (!get || !release)
		return ERROR_NOT_SUPPORTED;
	result = get(row->DestinationPrefix.Prefix.si_family, &table);
	if (result != NO_ERROR)
		return result;
	index = index_of(&row->InterfaceLuid, row->InterfaceIndex);
	result = ERROR_NOT_FOUND;
	for (i = 0; i < table->NumEntries && result != NO_ERROR; i++) {
		const MIB_IPFORWARD_ROW2 *r = &table->Table[i];
		if (r->InterfaceIndex == index && r->DestinationPrefix.PrefixLength == row->DestinationPrefix.PrefixLength &&
		    same_address(&r->DestinationPrefix.Prefix, &row->DestinationPrefix.Prefix) && same_address(&r->NextHop, &row->NextHop)) {
			*row = *r;
			result = NO_ERROR;
		}
	}
	release(table);
	return result;
}

/* One subscription: a thread with its own connection. The handle that the program holds is the structure's address. */
struct watch {
	const WCHAR *kind;
	ADDRESS_FAMILY family;
	void (WINAPI *callback)(void *, void *, MIB_NOTIFICATION_TYPE);
	void *context;
	BOOLEAN initial;
	int wire; /* under lock; closed by the thread only */
	CRITICAL_SECTION lock;
	HANDLE stop, thread;
	DWORD id;
};

static void report(struct watch *w, const struct call *c, MIB_NOTIFICATION_TYPE type)
{
	union {
		MIB_IPFORWARD_ROW2 route;
		MIB_UNICASTIPADDRESS_ROW address;
		MIB_IPINTERFACE_ROW link;
	} row;
	SOCKADDR_INET a;
	NET_LUID luid = { 0 };
	NET_IFINDEX index = (NET_IFINDEX)c->handle;
	UINT8 length = 0;

	forget_adapters();
	parse_address(c->out[0], &a, &length);
	if (w->family != AF_UNSPEC && a.si_family != AF_UNSPEC && a.si_family != w->family)
		return;
	if (index)
		luid_of(index, &luid);
	memset(&row, 0, sizeof row);
	if (w->kind[0] == L'r') {
		row.route.InterfaceLuid = luid;
		row.route.InterfaceIndex = index;
		row.route.DestinationPrefix.Prefix = a;
		row.route.DestinationPrefix.PrefixLength = length;
		row.route.Metric = (ULONG)(c->handle >> 32);
		parse_address(c->out[1], &row.route.NextHop, &length);
	} else if (w->kind[0] == L'a') {
		row.address.Address = a;
		row.address.InterfaceLuid = luid;
		row.address.InterfaceIndex = index;
		row.address.OnLinkPrefixLength = length;
	} else {
		row.link.Family = a.si_family ? a.si_family : AF_INET;
		row.link.InterfaceLuid = luid;
		row.link.InterfaceIndex = index;
	}
	w->callback(w->context, &row, type);
}

static void replace_wire(struct watch *w, int wire)
{
	EnterCriticalSection(&w->lock);
	wire_close(w->wire);
	w->wire = wire;
	LeaveCriticalSection(&w->lock);
}

/* Waits for an answer and reports it, unless it is the one that says that the subscription stands. Not 0: no more come. */
static int next_event(struct watch *w, BOOL first)
{
	struct call c = { OP_EVENTS };
	HRESULT result = E_FAIL;
	int failed = wire_receive(w->wire, &c, &result) || FAILED(result);

	if (!failed && !first)
		report(w, &c, (MIB_NOTIFICATION_TYPE)result);
	wire_free(c.out[0]);
	wire_free(c.out[1]);
	return failed;
}

static BOOL subscribe(struct watch *w)
{
	struct call c = { OP_EVENTS, 0, NULL, { w->kind } };
	int wire = wire_open();

	replace_wire(w, wire);
	return wire != NO_WIRE && wire_send(wire, &c) == 0 && next_event(w, TRUE) == 0;
}

/* While hnsd is away nothing is heard; afterwards an empty row says that something may have changed. */
static DWORD WINAPI watch_thread(void *argument)
{
	struct watch *w = argument;
	struct call nothing = { OP_EVENTS };

	if (w->initial)
		w->callback(w->context, NULL, MibInitialNotification);
	while (WaitForSingleObject(w->stop, 0) == WAIT_TIMEOUT) {
		if (w->wire != NO_WIRE && next_event(w, FALSE) == 0)
			continue;
		replace_wire(w, NO_WIRE);
		if (WaitForSingleObject(w->stop, RETRY_MS) == WAIT_TIMEOUT && subscribe(w))
			report(w, &nothing, MibParameterNotification);
	}
	replace_wire(w, NO_WIRE);
	return 0;
}

static void free_watch(struct watch *w)
{
	DeleteCriticalSection(&w->lock);
	if (w->thread)
		CloseHandle(w->thread);
	if (w->stop)
		CloseHandle(w->stop);
	free(w);
}

static DWORD start_watch(struct watch setup, HANDLE *handle)
{
	struct watch *w;

	if (!setup.callback || !handle)
		return ERROR_INVALID_PARAMETER;
	w = malloc(sizeof *w);
	if (!w)
		return ERROR_NOT_ENOUGH_MEMORY;
	*w = setup;
	w->wire = NO_WIRE;
	InitializeCriticalSection(&w->lock);
	w->stop = CreateEventW(NULL, TRUE, FALSE, NULL);
	subscribe(w); /* here, so that a change right after the call is heard */
	w->thread = w->stop ? CreateThread(NULL, 0, watch_thread, w, 0, &w->id) : NULL;
	if (!w->thread) {
		replace_wire(w, NO_WIRE);
		free_watch(w);
		return ERROR_NOT_ENOUGH_MEMORY;
	}
	*handle = w;
	return NO_ERROR;
}

DWORD WINAPI NotifyRouteChange2(ADDRESS_FAMILY family, PIPFORWARD_CHANGE_CALLBACK callback, void *context, BOOLEAN initial, HANDLE *handle)
{
	struct watch setup = { L"routes", family, (void *)callback, context, initial };
	return start_watch(setup, handle);
}

DWORD WINAPI NotifyUnicastIpAddressChange(ADDRESS_FAMILY family, PUNICAST_IPADDRESS_CHANGE_CALLBACK callback, void *context, BOOLEAN initial, HANDLE *handle)
{
	struct watch setup = { L"addresses", family, (void *)callback, context, initial };
	return start_watch(setup, handle);
}

DWORD WINAPI NotifyIpInterfaceChange(ADDRESS_FAMILY family, PIPINTERFACE_CHANGE_CALLBACK callback, void *context, BOOLEAN initial, HANDLE *handle)
{
	struct watch setup = { L"interfaces", family, (void *)callback, context, initial };
	return start_watch(setup, handle);
}

/* Returns when no callback runs any more. As on Windows it must not be called from one. */
DWORD WINAPI CancelMibChangeNotify2(HANDLE handle)
{
	struct watch *w = handle;

	if (!w)
		return ERROR_INVALID_PARAMETER;
	SetEvent(w->stop);
	EnterCriticalSection(&w->lock);
	wire_shutdown(w->wire);
	LeaveCriticalSection(&w->lock);
	WaitForSingleObject(w->thread, INFINITE);
	free_watch(w);
	return NO_ERROR;
}
