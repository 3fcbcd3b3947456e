/* The wire between the DLLs and hnsd: frames over TCP on the host's own loopback, little-endian.
 *
 *   request   u32 length of the rest, u32 op, u64 handle, 16 bytes GUID, 3 x (u32 byte length, UTF-16 bytes)
 *   answer    u32 length of the rest, u32 HRESULT, u64 handle, 2 x (u32 byte length or 0xffffffff for NULL, UTF-16 bytes)
 *   first     op 1000 with handle = process id and the program's name as first string; no answer
 *
 * op = 10 x object (0 network, 1 endpoint, 2 namespace, 3 load balancer, 4 route) + function (0 enumerate, 1 create,
 * 2 open, 3 modify, 4 query, 5 delete, 6 close); 100 = HNSCall(method, path, body).
 *
 * The host's own IP stack, for iphlpapi.dll: 101 = route("create", "set" or "delete", prefix, next hop) with handle =
 * metric << 32 | interface index. 102 = events("routes", "addresses" or "interfaces"): the first answer says that the
 * subscription stands, and each further one is one event: result = MIB_NOTIFICATION_TYPE, handle as above, strings =
 * prefix and next hop. Nothing else can be asked on such a connection.
 *
 * 103 = notifications of HNS for computenetwork.dll, in the same manner: result = HCN_NOTIFICATIONS, first string = data.
 * The end of the connection is the end of the service.
 *
 * 104 = address("create" or "delete", address with length), for iphlpapi.dll, with handle = interface index. */
#ifndef PORTHOLE_WIRE_H
#define PORTHOLE_WIRE_H

#include <stdint.h>

#include <winsock2.h>
#include <windows.h>
#include <objbase.h>

/* Strings of an answer are the caller's. iphlpapi.dll is loaded by nearly everybody and does not bring COM along. */
#ifdef WIRE_WITHOUT_COM
#define wire_alloc(size) LocalAlloc(LMEM_FIXED, (size))
#define wire_free(p) LocalFree(p)
#else
#define wire_alloc(size) CoTaskMemAlloc(size)
#define wire_free(p) CoTaskMemFree(p)
#endif

/* One call. in: op, handle, guid, text; out: handle, out[2] (wire_alloc strings or NULL). Returns the HRESULT. */
struct call {
	uint32_t op;
	uint64_t handle;
	const GUID *guid;
	const WCHAR *text[3];
	WCHAR *out[2];
};

HRESULT wire_call(struct call *c);

/* For a connection of one's own, which another thread may shut down: opens one (NO_WIRE: nobody there), sends a call,
 * receives one answer. Not 0: the connection is of no use any more. It is a descriptor of Linux, not Wine's. */
#define NO_WIRE (-1)

int wire_open(void);
int wire_send(int fd, const struct call *c);
int wire_receive(int fd, struct call *c, HRESULT *result);
void wire_shutdown(int fd);
void wire_close(int fd);

#endif
