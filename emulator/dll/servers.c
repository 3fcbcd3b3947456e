#include "servers.h"

#include <stdio.h>
#include <string.h>

/* A server in an answer of GetAdaptersAddresses, with its address behind it. */
struct entry {
	IP_ADAPTER_DNS_SERVER_ADDRESS server;
	SOCKADDR_INET address;
};

ULONG servers_room(const struct adapters *a)
{
	return sizeof(struct entry) * a->server_count + sizeof(void *); /* and to align it */
}

static void fill_entry(struct entry *e, const struct server *s)
{
	memset(e, 0, sizeof *e);
	e->server.Length = sizeof e->server;
	e->server.Address.lpSockaddr = (SOCKADDR *)&e->address;
	if (s->size == 4) {
		e->server.Address.iSockaddrLength = sizeof e->address.Ipv4;
		e->address.Ipv4.sin_family = AF_INET;
		memcpy(&e->address.Ipv4.sin_addr, s->address, s->size);
		return;
	}
	e->server.Address.iSockaddrLength = sizeof e->address.Ipv6;
	e->address.Ipv6.sin6_family = AF_INET6;
	memcpy(&e->address.Ipv6.sin6_addr, s->address, sizeof e->address.Ipv6.sin6_addr);
	if (IN6_IS_ADDR_SITELOCAL(&e->address.Ipv6.sin6_addr))
		e->address.Ipv6.sin6_scope_id = 1; /* ipconfig of Windows shows fec0:0:0:ffff::1%1 */
}

void servers_add(const struct adapters *a, ULONG family, IP_ADAPTER_ADDRESSES *list, BYTE *end)
{
	struct entry *room = (struct entry *)(((uintptr_t)end + sizeof(void *) - 1) & ~(uintptr_t)(sizeof(void *) - 1));
	UINT i;

	for (; list; list = list->Next) {
		const struct adapter *at = adapter_with_luid(a, list->Luid.Value);
		IP_ADAPTER_DNS_SERVER_ADDRESS **next = &list->FirstDnsServerAddress;
		for (i = 0; at && i < a->server_count; i++) {
			const struct server *s = &a->servers[i];
			if (s->index != at->index || (family != AF_UNSPEC && family != (ULONG)(s->size == 4 ? AF_INET : AF_INET6)))
				continue;
			fill_entry(room, s);
			*next = &room->server;
			next = &room->server.Next;
			room++;
		}
	}
}

ULONG servers_params_room(const struct adapters *a)
{
	return sizeof(IP_ADDR_STRING) * a->server_count;
}

void servers_params_set(const struct adapters *a, FIXED_INFO *info)
{
	IP_ADDR_STRING *at = NULL, *more = (IP_ADDR_STRING *)(info + 1);
	UINT i;

	memset(&info->DnsServerList, 0, sizeof info->DnsServerList);
	for (i = 0; i < a->server_count; i++) {
		const struct server *s = &a->servers[i];
		if (s->size != 4)
			continue;
		if (at)
			at = at->Next = memset(more++, 0, sizeof *more);
		else
			at = &info->DnsServerList;
		snprintf(at->IpAddress.String, sizeof at->IpAddress.String, "%u.%u.%u.%u", s->address[0], s->address[1], s->address[2], s->address[3]);
	}
}
