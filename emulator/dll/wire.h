/* Calls of hnsd over TCP on the host's own loopback. Package emulator/wire describes the frames and the operations, whose
 * numbers are in ops.h. */
#ifndef PORTHOLE_WIRE_H
#define PORTHOLE_WIRE_H

#include <stdint.h>

#include <winsock2.h>
#include <windows.h>

#include "ops.h"

/* Strings of an answer are the caller's, to free with LocalFree or CoTaskMemFree: with Wine's libraries and our combase.dll both free
 * memory of the process' heap. ole32.dll, which has CoTaskMemAlloc too, would take 40 ms to load. */
#define wire_alloc(size) HeapAlloc(GetProcessHeap(), 0, (size))
#define wire_free(p) ((void)((p) && HeapFree(GetProcessHeap(), 0, (p))))

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
int wire_open_at(uint16_t port, const char *variable); /* of another service: its port, and the variable with its address */
int wire_send(int fd, const struct call *c);
int wire_receive(int fd, struct call *c, HRESULT *result);
int wire_send_bytes(int fd, const char *data, size_t size);
int wire_receive_bytes(int fd, char *data, size_t size);
void wire_shutdown(int fd);
void wire_close(int fd);

#endif
