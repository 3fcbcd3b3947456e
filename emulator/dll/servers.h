/* DNS servers of the host's own in the answers of the IP helper library, in place of those that Wine reads from resolv.conf. */
#ifndef SERVERS_H
#define SERVERS_H

#include "adapters.h"

#include <ws2tcpip.h>

#include <iphlpapi.h>

/* Bytes that the servers take behind Wine's answer to GetAdaptersAddresses, wherever that ends, and puts them there: into the room
 * behind end, which is at least that large. Servers of another family than asked for are left out. */
ULONG servers_room(const struct adapters *a);
void servers_add(const struct adapters *a, ULONG family, IP_ADAPTER_ADDRESSES *list, BYTE *end);

/* The same for GetNetworkParams, which knows servers with IPv4 addresses only. */
ULONG servers_params_room(const struct adapters *a);
void servers_params_set(const struct adapters *a, FIXED_INFO *info);

#endif
