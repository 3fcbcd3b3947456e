/* The wire between the DLLs and hnsd: frames over TCP on the host's own loopback, little-endian.
 *
 *   request   u32 length of the rest, u32 op, u64 handle, 16 bytes GUID, 3 x (u32 byte length, UTF-16 bytes)
 *   answer    u32 length of the rest, u32 HRESULT, u64 handle, 2 x (u32 byte length or 0xffffffff for NULL, UTF-16 bytes)
 *   first     op 1000 with handle = process id and the program's name as first string; no answer
 *
 * op = 10 x object (0 network, 1 endpoint, 2 namespace, 3 load balancer, 4 route) + function (0 enumerate, 1 create,
 * 2 open, 3 modify, 4 query, 5 delete, 6 close); 100 = HNSCall(method, path, body). */
#ifndef PORTHOLE_WIRE_H
#define PORTHOLE_WIRE_H

#include <stdint.h>

#include <winsock2.h>
#include <windows.h>
#include <objbase.h>

/* One call. in: op, handle, guid, text; out: handle, out[2] (CoTaskMem strings or NULL). Returns the HRESULT. */
struct call {
	uint32_t op;
	uint64_t handle;
	const GUID *guid;
	const WCHAR *text[3];
	WCHAR *out[2];
};

HRESULT wire_call(struct call *c);

#endif
