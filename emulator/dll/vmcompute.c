/* vmcompute.dll: HNSCall, the first generation of the HNS interface, by a call to hnsd; and the Host Compute Service and the layers of
 * containers, each function one call to hcsd (package emulator/hcsd), which decides everything. Here are only the handles, the
 * threads that wait for notifications, and those that carry the standard streams of programs. */
#include "forget.h"
#include "notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winternl.h>

NTSTATUS NTAPI RtlGUIDFromString(const UNICODE_STRING *text, GUID *guid);

#define API __declspec(dllexport) HRESULT WINAPI

API HNSCall(const WCHAR *method, const WCHAR *path, const WCHAR *body, WCHAR **response)
{
	struct call c = { OP_HNSCALL, 0, NULL, { method, path, body } };
	HRESULT hr;

	if (response)
		*response = NULL;
	hr = wire_call(&c);
	forget_adapters();
	wire_free(c.out[1]);
	if (response)
		*response = c.out[0];
	else
		wire_free(c.out[0]);
	return hr;
}

/* The service starts with the host, or when it is first called: a call waits for it as long as this. */
#define TRIES 100
#define TRY_MS 100

/* hcs_open connects to hcsd. */
static int hcs_open(void)
{
	int i, fd;

	for (i = 0; (fd = wire_open_at(HCSD_PORT, "HCSD_ADDR")) == NO_WIRE && i < TRIES; i++)
		Sleep(TRY_MS);
	return fd;
}

/* hcs_call makes one call over fd. What the caller does not take of the answer is freed. */
static HRESULT hcs_call_over(int fd, struct call *c, WCHAR **out, WCHAR **record)
{
	HRESULT result = RPC_CALL_FAILED;

	if (out)
		*out = NULL;
	if (record)
		*record = NULL;
	if (fd == NO_WIRE)
		return RPC_SERVER_UNAVAILABLE;
	if (wire_send(fd, c) != 0 || wire_receive(fd, c, &result) != 0) {
		wire_free(c->out[0]);
		wire_free(c->out[1]);
		return RPC_CALL_FAILED;
	}
	if (out)
		*out = c->out[0];
	else
		wire_free(c->out[0]);
	if (record)
		*record = c->out[1];
	else
		wire_free(c->out[1]);
	return result;
}

/* Each call has a connection of its own, so that one that hangs holds up no other. */
static HRESULT hcs_call(struct call *c, WCHAR **out, WCHAR **record)
{
	int fd = hcs_open();
	HRESULT hr = hcs_call_over(fd, c, out, record);

	wire_close(fd);
	return hr;
}

/* A handle of a system or process. Its connection holds it open in hcsd, until it or the program ends. */
#define OBJECT 0x48435331
struct object {
	DWORD magic; /* OBJECT while it is one */
	int wire;
	WCHAR *id; /* of the system */
	DWORD pid; /* of the process; 0: a system */
	struct stream *streams[3];
};

/* One standard stream of a process: the end of a pipe that we have, and the thread that carries it. The two others count. */
struct stream {
	HANDLE pipe;  /* the thread's */
	HANDLE drain; /* of input: end it when what is in the pipe has been sent */
	WCHAR *id;
	DWORD pid;
	int number;
	volatile LONG users;
};

static void leave_stream(struct stream *s)
{
	if (!s || InterlockedDecrement(&s->users) > 0)
		return;
	if (s->drain)
		CloseHandle(s->drain);
	free(s->id);
	free(s);
}

static WCHAR *copy(const WCHAR *text)
{
	size_t size = (wcslen(text) + 1) * sizeof *text;
	WCHAR *p = malloc(size);

	if (p)
		memcpy(p, text, size);
	return p;
}

static struct object *new_object(const WCHAR *id)
{
	struct object *o = calloc(1, sizeof *o);

	if (o && !(o->id = copy(id))) {
		free(o);
		return NULL;
	}
	if (o) {
		o->magic = OBJECT;
		o->wire = NO_WIRE;
	}
	return o;
}

static void free_object(struct object *o)
{
	int i;

	o->magic = 0;
	wire_close(o->wire);
	for (i = 0; i < 3; i++)
		leave_stream(o->streams[i]);
	free(o->id);
	free(o);
}

static BOOL is_system(const struct object *o)
{
	return o && o->magic == OBJECT && o->pid == 0;
}

static BOOL is_process(const struct object *o)
{
	return o && o->magic == OBJECT && o->pid != 0;
}

/* open_object calls a function that opens something, over the connection of its handle. */
static HRESULT open_object(struct call *c, struct object **handle, WCHAR **record)
{
	struct object *o;
	HRESULT hr;

	if (!handle || !c->text[1])
		return E_POINTER;
	*handle = NULL;
	o = new_object(c->text[1]);
	if (!o)
		return E_OUTOFMEMORY;
	o->wire = hcs_open();
	hr = hcs_call_over(o->wire, c, NULL, record);
	o->pid = (DWORD)c->handle;
	if (FAILED(hr))
		free_object(o);
	else
		*handle = o;
	return hr;
}

/* A call on an open handle. */
static HRESULT on_object(const WCHAR *function, const struct object *o, const WCHAR *document, WCHAR **out, WCHAR **record)
{
	struct call c = { OP_HCS, o->pid, NULL, { function, o->id, document } };

	return hcs_call(&c, out, record);
}

#define ON_SYSTEM(X)                                                                           \
	API X(struct object *system, const WCHAR *document, WCHAR **record)                    \
	{                                                                                      \
		return is_system(system) ? on_object(L"" #X, system, document, NULL, record) : E_HANDLE; \
	}
ON_SYSTEM(HcsStartComputeSystem)
ON_SYSTEM(HcsShutdownComputeSystem)
ON_SYSTEM(HcsTerminateComputeSystem)
ON_SYSTEM(HcsPauseComputeSystem)
ON_SYSTEM(HcsResumeComputeSystem)
ON_SYSTEM(HcsSaveComputeSystem)
ON_SYSTEM(HcsModifyComputeSystem)

API HcsCreateComputeSystem(const WCHAR *id, const WCHAR *configuration, HANDLE identity, struct object **system, WCHAR **record)
{
	struct call c = { OP_HCS, 0, NULL, { L"HcsCreateComputeSystem", id, configuration } };

	(void)identity;
	return open_object(&c, system, record);
}

API HcsOpenComputeSystem(const WCHAR *id, struct object **system, WCHAR **record)
{
	struct call c = { OP_HCS, 0, NULL, { L"HcsOpenComputeSystem", id, NULL } };

	return open_object(&c, system, record);
}

API HcsCloseComputeSystem(struct object *system)
{
	if (!is_system(system))
		return E_HANDLE;
	free_object(system);
	return S_OK;
}

API HcsGetComputeSystemProperties(struct object *system, const WCHAR *query, WCHAR **properties, WCHAR **record)
{
	return is_system(system) ? on_object(L"HcsGetComputeSystemProperties", system, query, properties, record) : E_HANDLE;
}

API HcsEnumerateComputeSystems(const WCHAR *query, WCHAR **systems, WCHAR **record)
{
	struct call c = { OP_HCS, 0, NULL, { L"HcsEnumerateComputeSystems", NULL, query } };

	return hcs_call(&c, systems, record);
}

API HcsGetServiceProperties(const WCHAR *query, WCHAR **properties, WCHAR **record)
{
	struct call c = { OP_HCS, 0, NULL, { L"HcsGetServiceProperties", NULL, query } };

	return hcs_call(&c, properties, record);
}

API HcsModifyServiceSettings(const WCHAR *settings, WCHAR **record)
{
	struct call c = { OP_HCS, 0, NULL, { L"HcsModifyServiceSettings", NULL, settings } };

	return hcs_call(&c, NULL, record);
}

/* Standard streams */

#define PIPE_SIZE 65536
#define REOPEN_MS 100
#define REOPENS 600 /* for a minute: hcsd may be started again */

/* stream_open makes a connection that is the stream. */
static int stream_open(const struct stream *s)
{
	WCHAR number[2] = { L'0' + s->number, 0 };
	struct call c = { OP_HCS_STREAM, s->pid, NULL, { s->id, number, NULL } };
	HRESULT result;
	int fd = wire_open_at(HCSD_PORT, "HCSD_ADDR");

	if (fd == NO_WIRE)
		return NO_WIRE;
	if (wire_send(fd, &c) == 0 && wire_receive(fd, &c, &result) == 0) {
		wire_free(c.out[0]);
		wire_free(c.out[1]);
		if (SUCCEEDED(result))
			return fd;
	}
	wire_close(fd);
	return NO_WIRE;
}

/* receive_pieces writes what comes to the pipe. TRUE: the stream has ended, or nobody reads the pipe any more. */
static BOOL receive_pieces(const struct stream *s, int fd, char *piece)
{
	uint32_t size;
	DWORD written;

	while (wire_receive_bytes(fd, (char *)&size, sizeof size) == 0) {
		if (size == 0 || size > PIPE_SIZE)
			return TRUE;
		if (wire_receive_bytes(fd, piece, size) != 0)
			return FALSE;
		if (!WriteFile(s->pipe, piece, size, &written, NULL))
			return TRUE;
	}
	return FALSE;
}

static DWORD WINAPI carry_output(void *argument)
{
	struct stream *s = argument;
	char *piece = malloc(PIPE_SIZE);
	BOOL ended = piece == NULL;
	int i, fd;

	for (i = 0; !ended && i < REOPENS; i++) {
		fd = stream_open(s);
		if (fd == NO_WIRE) {
			Sleep(REOPEN_MS);
			continue;
		}
		ended = receive_pieces(s, fd, piece);
		wire_close(fd);
	}
	free(piece);
	FlushFileBuffers(s->pipe); /* the reader gets everything before the pipe ends */
	CloseHandle(s->pipe);
	leave_stream(s);
	return 0;
}

/* read_input reads what a program's user has written; 0: nothing comes any more. */
static DWORD read_input(const struct stream *s, char *piece)
{
	OVERLAPPED reading = { .hEvent = CreateEventW(NULL, TRUE, FALSE, NULL) };
	HANDLE either[2] = { reading.hEvent, s->drain };
	DWORD n = 0, available = 0;
	BOOL done = ReadFile(s->pipe, piece, PIPE_SIZE, NULL, &reading);

	if (!done && GetLastError() == ERROR_IO_PENDING) {
		if (WaitForMultipleObjects(2, either, FALSE, INFINITE) == WAIT_OBJECT_0 + 1 &&
		    (!PeekNamedPipe(s->pipe, NULL, 0, NULL, &available, NULL) || available == 0))
			CancelIo(s->pipe);
		done = TRUE;
	}
	if (!done || !GetOverlappedResult(s->pipe, &reading, &n, TRUE))
		n = 0;
	CloseHandle(reading.hEvent);
	return n;
}

static DWORD WINAPI carry_input(void *argument)
{
	struct stream *s = argument;
	char *piece = malloc(PIPE_SIZE);
	int fd = stream_open(s);
	uint32_t size = 1;

	while (piece && fd != NO_WIRE && size > 0) {
		size = read_input(s, piece);
		if (wire_send_bytes(fd, (char *)&size, sizeof size) != 0 || wire_send_bytes(fd, piece, size) != 0)
			break;
	}
	wire_close(fd);
	free(piece);
	CloseHandle(s->pipe);
	leave_stream(s);
	return 0;
}

/* make_pipe makes the pipe of a stream: the program's user gets one end, whose handle works with an I/O completion port as hcsshim
 * wants it. */
static HANDLE make_pipe(int number, HANDLE *ours)
{
	static LONG sequence;
	WCHAR name[80];
	DWORD direction = number == 0 ? PIPE_ACCESS_OUTBOUND : PIPE_ACCESS_INBOUND;
	HANDLE user;

	_snwprintf(name, 80, L"\\\\.\\pipe\\hcs-%lu-%ld", GetCurrentProcessId(), InterlockedIncrement(&sequence));
	user = CreateNamedPipeW(name, direction | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE, PIPE_TYPE_BYTE, 1, PIPE_SIZE, PIPE_SIZE, 0, NULL);
	if (user == INVALID_HANDLE_VALUE)
		return NULL;
	*ours = CreateFileW(name, number == 0 ? GENERIC_READ : GENERIC_WRITE, 0, NULL, OPEN_EXISTING, number == 0 ? FILE_FLAG_OVERLAPPED : 0, NULL);
	if (*ours != INVALID_HANDLE_VALUE)
		return user;
	CloseHandle(user);
	return NULL;
}

/* start_stream gives the user of a process one of its streams, or NULL. */
static HANDLE start_stream(struct object *process, int number)
{
	struct stream *s = calloc(1, sizeof *s);
	HANDLE user, thread;

	if (!s)
		return NULL;
	s->id = copy(process->id);
	s->pid = process->pid;
	s->number = number;
	s->users = 2; /* the process' handle and the thread */
	s->drain = number == 0 ? CreateEventW(NULL, TRUE, FALSE, NULL) : NULL;
	user = make_pipe(number, &s->pipe);
	thread = user ? CreateThread(NULL, 0, number == 0 ? carry_input : carry_output, s, 0, NULL) : NULL;
	if (!thread) {
		free(s->id);
		free(s);
		return NULL;
	}
	CloseHandle(thread);
	process->streams[number] = s;
	return user;
}

/* Processes */

struct process_information {
	DWORD pid, reserved;
	HANDLE in, out, err;
};

/* The answer to HcsCreateProcess says which streams there are: the first text is a digit for each. */
API HcsCreateProcess(struct object *system, const WCHAR *parameters, struct process_information *information, struct object **process, WCHAR **record)
{
	struct call c = { OP_HCS, 0, NULL, { L"HcsCreateProcess", NULL, parameters } };
	HANDLE *user[3];
	WCHAR *streams = NULL, *p;
	struct object *o;
	HRESULT hr;

	if (!is_system(system))
		return E_HANDLE;
	if (!information || !process)
		return E_POINTER;
	*process = NULL;
	memset(information, 0, sizeof *information);
	user[0] = &information->in, user[1] = &information->out, user[2] = &information->err;
	c.text[1] = system->id;
	o = new_object(system->id);
	if (!o)
		return E_OUTOFMEMORY;
	o->wire = hcs_open();
	hr = hcs_call_over(o->wire, &c, &streams, record);
	o->pid = (DWORD)c.handle;
	if (FAILED(hr)) {
		free_object(o);
		return hr;
	}
	for (p = streams; p && *p >= L'0' && *p <= L'2'; p++)
		*user[*p - L'0'] = start_stream(o, *p - L'0');
	wire_free(streams);
	information->pid = o->pid;
	*process = o;
	return hr;
}

API HcsOpenProcess(struct object *system, DWORD pid, struct object **process, WCHAR **record)
{
	struct call c = { OP_HCS, pid, NULL, { L"HcsOpenProcess", NULL, NULL } };

	if (!is_system(system))
		return E_HANDLE;
	c.text[1] = system->id;
	return open_object(&c, process, record);
}

API HcsCloseProcess(struct object *process)
{
	if (!is_process(process))
		return E_HANDLE;
	free_object(process);
	return S_OK;
}

API HcsTerminateProcess(struct object *process, WCHAR **record)
{
	return is_process(process) ? on_object(L"HcsTerminateProcess", process, NULL, NULL, record) : E_HANDLE;
}

API HcsSignalProcess(struct object *process, const WCHAR *options, WCHAR **record)
{
	return is_process(process) ? on_object(L"HcsSignalProcess", process, options, NULL, record) : E_HANDLE;
}

/* The streams of a process are given once, by HcsCreateProcess. */
API HcsGetProcessInfo(struct object *process, struct process_information *information, WCHAR **record)
{
	if (record)
		*record = NULL;
	if (!is_process(process))
		return E_HANDLE;
	if (!information)
		return E_POINTER;
	memset(information, 0, sizeof *information);
	information->pid = process->pid;
	return S_OK;
}

API HcsGetProcessProperties(struct object *process, WCHAR **properties, WCHAR **record)
{
	return is_process(process) ? on_object(L"HcsGetProcessProperties", process, NULL, properties, record) : E_HANDLE;
}

API HcsModifyProcess(struct object *process, const WCHAR *settings, WCHAR **record)
{
	struct call c = { OP_HCS, 0, NULL, { L"HcsModifyProcess", NULL, settings } };
	HRESULT hr;

	if (!is_process(process))
		return E_HANDLE;
	c.handle = process->pid;
	c.text[1] = process->id;
	hr = hcs_call(&c, NULL, record);
	if (SUCCEEDED(hr) && c.handle == HCS_DRAIN && process->streams[0])
		SetEvent(process->streams[0]->drain);
	return hr;
}

/* Callbacks */

static HRESULT add_callback(const struct object *o, void *callback, void *context, void **handle)
{
	struct call c = { OP_HCS_NOTIFY, o->pid, NULL, { o->id, NULL, NULL } };

	return notify_add(hcs_open(), &c, callback, context, handle);
}

API HcsRegisterComputeSystemCallback(struct object *system, void *callback, void *context, void **handle)
{
	return is_system(system) ? add_callback(system, callback, context, handle) : E_HANDLE;
}

API HcsRegisterProcessCallback(struct object *process, void *callback, void *context, void **handle)
{
	return is_process(process) ? add_callback(process, callback, context, handle) : E_HANDLE;
}

API HcsUnregisterComputeSystemCallback(void *handle)
{
	return notify_remove(handle);
}

API HcsUnregisterProcessCallback(void *handle)
{
	return notify_remove(handle);
}

/* Layers */

struct driver {
	int flavour;
	const WCHAR *home; /* a layer's name is below it; "" for a full path */
};

struct descriptor {
	GUID id;
	ULONG flags;
	const WCHAR *path;
};

/* A text that grows. */
struct buffer {
	WCHAR *text;
	size_t length;
};

static BOOL append(struct buffer *b, const WCHAR *text)
{
	size_t n = wcslen(text);
	WCHAR *grown = realloc(b->text, (b->length + n + 1) * sizeof *text);

	if (!grown)
		return FALSE;
	memcpy(grown + b->length, text, (n + 1) * sizeof *text);
	b->text = grown;
	b->length += n;
	return TRUE;
}

/* layer_call makes a call about one layer. first and parents, one a line, are its document. */
static HRESULT layer_call(const WCHAR *function, const struct driver *d, const WCHAR *name, const WCHAR *first, const struct descriptor *parents, SIZE_T n,
			  struct call *c, WCHAR **out)
{
	struct buffer path = { NULL, 0 }, document = { NULL, 0 };
	BOOL ok = TRUE;
	HRESULT hr = E_OUTOFMEMORY;
	SIZE_T i;

	if (!name || (n && !parents))
		return E_POINTER;
	if (d && d->home && *d->home)
		ok = append(&path, d->home) && append(&path, L"\\");
	ok = ok && append(&path, name) && append(&document, first ? first : L"") && (!first || !n || append(&document, L"\n"));
	for (i = 0; i < n && ok; i++)
		ok = append(&document, parents[i].path) && append(&document, L"\n");
	if (ok) {
		c->op = OP_HCS;
		c->text[0] = function;
		c->text[1] = path.text;
		c->text[2] = document.text;
		hr = hcs_call(c, out, NULL);
	}
	free(path.text);
	free(document.text);
	return hr;
}

#define ON_LAYER(X)                                                                             \
	API X(const struct driver *d, const WCHAR *name)                                        \
	{                                                                                       \
		struct call c = { 0 };                                                          \
		return layer_call(L"" #X, d, name, NULL, NULL, 0, &c, NULL);                    \
	}
ON_LAYER(ActivateLayer)
ON_LAYER(DeactivateLayer)
ON_LAYER(UnprepareLayer)
ON_LAYER(DestroyLayer)

API PrepareLayer(const struct driver *d, const WCHAR *name, const struct descriptor *parents, SIZE_T n)
{
	struct call c = { 0 };

	return layer_call(L"PrepareLayer", d, name, NULL, parents, n, &c, NULL);
}

API ImportLayer(const struct driver *d, const WCHAR *name, const WCHAR *folder, const struct descriptor *parents, SIZE_T n)
{
	struct call c = { 0 };

	return folder ? layer_call(L"ImportLayer", d, name, folder, parents, n, &c, NULL) : E_POINTER;
}

API LayerExists(const struct driver *d, const WCHAR *name, DWORD *exists)
{
	struct call c = { 0 };
	HRESULT hr = layer_call(L"LayerExists", d, name, NULL, NULL, 0, &c, NULL);

	if (exists)
		*exists = (DWORD)c.handle;
	return hr;
}

API ExpandSandboxSize(const struct driver *d, const WCHAR *name, uint64_t size)
{
	struct call c = { 0 };
	WCHAR text[24];

	_snwprintf(text, 24, L"%I64u", size);
	return layer_call(L"ExpandSandboxSize", d, name, text, NULL, 0, &c, NULL);
}

/* Called first without a buffer, for the length. */
API GetLayerMountPath(const struct driver *d, const WCHAR *name, SIZE_T *length, WCHAR *buffer)
{
	struct call c = { 0 };
	WCHAR *path = NULL;
	SIZE_T needed;
	HRESULT hr;

	if (!length)
		return E_POINTER;
	hr = layer_call(L"GetLayerMountPath", d, name, NULL, NULL, 0, &c, &path);
	if (FAILED(hr) || !path)
		return hr;
	needed = wcslen(path) + 1;
	if (buffer && *length < needed)
		hr = HRESULT_FROM_WIN32(ERROR_INSUFFICIENT_BUFFER);
	else if (buffer)
		memcpy(buffer, path, needed * sizeof *path);
	*length = needed;
	wire_free(path);
	return hr;
}

API NameToGuid(const WCHAR *name, GUID *guid)
{
	struct call c = { 0 };
	WCHAR *text = NULL, braces[40];
	UNICODE_STRING id;
	HRESULT hr;

	if (!guid)
		return E_POINTER;
	hr = layer_call(L"NameToGuid", NULL, name, NULL, NULL, 0, &c, &text);
	if (FAILED(hr) || !text)
		return hr;
	_snwprintf(braces, 40, L"{%ls}", text);
	wire_free(text);
	RtlInitUnicodeString(&id, braces);
	return RtlGUIDFromString(&id, guid) >= 0 ? S_OK : CO_E_CLASSSTRING; /* CLSIDFromString would load ole32.dll */
}

API ProcessBaseImage(const WCHAR *path)
{
	struct call c = { 0 };

	return layer_call(L"ProcessBaseImage", NULL, path, NULL, NULL, 0, &c, NULL);
}

/* For Hyper-V, and for what no program in scope does. */
#define STUB(X) API X(void) { return E_NOTIMPL; }
STUB(ProcessUtilityImage)
STUB(ExportLayer)
STUB(CopyLayer)
STUB(CreateLayer)
STUB(CreateSandboxLayer)
STUB(GetBaseImages)
STUB(GrantVmAccess)
