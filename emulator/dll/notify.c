#include "notify.h"

#include <stdlib.h>

/* One registration: a thread with its own connection. The handle that the program holds is the structure's address. */
struct registration {
	void (CALLBACK *callback)(DWORD type, void *context, HRESULT status, const WCHAR *data);
	void *context;
	uint32_t op;
	int wire; /* closed after the thread's end only */
	HANDLE thread;
	DWORD id;
	volatile LONG stopping;
};

/* Receives one answer; the first reports whether the registration stands. Not 0: no more come. Notifications of HNS have no status. */
static int next_notification(struct registration *r, HRESULT *result, BOOL first)
{
	struct call c = { r->op };
	int failed = wire_receive(r->wire, &c, result);

	if (!failed && !first && !r->stopping)
		r->callback((DWORD)*result, r->context, r->op == OP_HCS_NOTIFY ? (HRESULT)c.handle : S_OK, c.out[0]);
	wire_free(c.out[0]); /* NULL if nothing came */
	wire_free(c.out[1]);
	return failed;
}

/* Ends with the service: then the program is told, and has to register again (unverified, no. 49). */
static DWORD WINAPI notify_thread(void *argument)
{
	struct registration *r = argument;
	HRESULT result;

	while (next_notification(r, &result, FALSE) == 0)
		;
	if (!r->stopping)
		r->callback(SERVICE_DISCONNECT, r->context, S_OK, NULL);
	return 0;
}

static void free_registration(struct registration *r)
{
	wire_close(r->wire);
	if (r->thread)
		CloseHandle(r->thread);
	free(r);
}

HRESULT notify_add(int wire, const struct call *c, void *callback, void *context, void **handle)
{
	HRESULT result = RPC_SERVER_UNAVAILABLE;
	struct registration *r = callback && handle ? calloc(1, sizeof *r) : NULL;

	if (handle)
		*handle = NULL;
	if (!r) {
		wire_close(wire);
		return callback && handle ? E_OUTOFMEMORY : E_POINTER;
	}
	r->callback = callback;
	r->context = context;
	r->op = c->op;
	r->wire = wire;
	if (wire != NO_WIRE && wire_send(wire, c) == 0 && next_notification(r, &result, TRUE) == 0 && SUCCEEDED(result)) {
		r->thread = CreateThread(NULL, 0, notify_thread, r, 0, &r->id);
		if (r->thread) {
			*handle = r;
			return S_OK;
		}
		result = E_OUTOFMEMORY;
	}
	free_registration(r);
	return result;
}

HRESULT notify_remove(void *handle)
{
	struct registration *r = handle;

	if (!r)
		return E_HANDLE;
	if (GetCurrentThreadId() == r->id)
		return E_UNEXPECTED;
	InterlockedExchange(&r->stopping, 1);
	wire_shutdown(r->wire);
	WaitForSingleObject(r->thread, INFINITE);
	free_registration(r);
	return S_OK;
}
