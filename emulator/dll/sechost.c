/* sechost.dll: the functions of Windows' service manager, for programs that ask it and for programs that are services. The
 * manager of an emulated host is scmd (package emulator/scm); its answers come over the wire, each as fields that FIELD ends.
 * Services that scmd does not know are those of Wine's own manager, and so is everything while no scmd runs, as when Wine makes
 * a prefix. All other functions are Wine's (sechost.def; winesech.dll is a copy of its library under another name). */
#define WINADVAPI /* we are where these functions come from */
#include "wire.h"

#include "linux.h"

#include <stdlib.h>
#include <string.h>
#include <winsvc.h>

/* What separates fields, the items of a list in a field, and records; and a field that is NULL. */
enum { FIELD = 0x1f, ITEM = 0x1e, RECORD = 0x1d, NONE = 0x02 };

static FARPROC wine(const char *name)
{
	static HMODULE library;

	if (!library)
		library = LoadLibraryW(L"winesech.dll");
	return library ? GetProcAddress(library, name) : NULL;
}

/* WINE calls Wine's function of the name with the type of ours. */
#define WINE(function, ...) (((typeof(function) *)(void *)wine(#function))(__VA_ARGS__))

static BOOL result(DWORD error)
{
	if (error)
		SetLastError(error);
	return error == ERROR_SUCCESS;
}

/* ---- texts ---- */

struct text {
	WCHAR *data;
	size_t size, room;
};

static void put(struct text *t, WCHAR c)
{
	if (t->size + 1 >= t->room) {
		t->room = t->room ? 2 * t->room : 256;
		t->data = realloc(t->data, t->room * sizeof(WCHAR));
	}
	t->data[t->size++] = c;
	t->data[t->size] = 0;
}

static void put_field(struct text *t, const WCHAR *s)
{
	if (!s)
		put(t, NONE);
	while (s && *s)
		put(t, *s++);
	put(t, FIELD);
}

static void put_number(struct text *t, DWORD n)
{
	char digits[16], *p = digits;

	_ultoa(n, digits, 10);
	while (*p)
		put(t, *p++);
	put(t, FIELD);
}

/* put_list adds a REG_MULTI_SZ as one field. */
static void put_list(struct text *t, const WCHAR *list)
{
	if (!list)
		put(t, NONE);
	for (; list && *list; list++) {
		while (*list)
			put(t, *list++);
		put(t, ITEM);
	}
	put(t, FIELD);
}

static void put_strings(struct text *t, DWORD count, const WCHAR **list)
{
	DWORD i;

	for (i = 0; i < count; i++) {
		const WCHAR *s = list[i] ? list[i] : L"";
		while (*s)
			put(t, *s++);
		put(t, ITEM);
	}
	put(t, FIELD);
}

/* field cuts the next field off the answer. */
static WCHAR *field(WCHAR **rest, WCHAR end)
{
	WCHAR *start = *rest, *p = start;

	while (*p && *p != end)
		p++;
	*rest = *p ? p + 1 : p;
	*p = 0;
	return start;
}

static DWORD number(WCHAR **rest)
{
	return wcstoul(field(rest, FIELD), NULL, 10);
}

/* ask calls scmd about a service. *answer, if wanted, is the caller's to free with LocalFree. */
static DWORD ask(const WCHAR *function, const WCHAR *service, struct text *args, WCHAR **answer)
{
	struct call c = { OP_SCM, (uint64_t)linux_call(SYS_GETPID, 0, 0, 0, 0, 0), NULL,
			  { function, service ? service : L"", args && args->data ? args->data : L"" }, { NULL, NULL } };
	HRESULT hr = wire_call(&c);

	if (args)
		free(args->data);
	if (answer)
		*answer = c.out[0];
	else
		wire_free(c.out[0]);
	wire_free(c.out[1]);
	return HRESULT_FACILITY(hr) == FACILITY_WIN32 && FAILED(hr) ? (DWORD)HRESULT_CODE(hr) : (DWORD)hr;
}

/* ---- handles ---- */

/* A handle of ours begins with an address that nothing of Wine's does. The manager's has no name. */
struct handle {
	const void *mark;
	WCHAR name[257];
	DWORD access;
	SC_HANDLE wine;
};

static const char mark;

static struct handle *ours(SC_HANDLE h)
{
	struct handle *p = (struct handle *)h;
	MEMORY_BASIC_INFORMATION info;

	if (!p || !VirtualQuery(p, &info, sizeof info) || info.State != MEM_COMMIT)
		return NULL;
	return p->mark == &mark ? p : NULL;
}

static SC_HANDLE new_handle(const WCHAR *name, DWORD access)
{
	struct handle *p = calloc(1, sizeof *p);

	p->mark = &mark;
	p->access = access;
	if (name)
		lstrcpynW(p->name, name, 257);
	return (SC_HANDLE)p;
}

SC_HANDLE WINAPI OpenSCManagerW(const WCHAR *machine, const WCHAR *database, DWORD access)
{
	if (ask(L"ping", NULL, NULL, NULL) == RPC_S_SERVER_UNAVAILABLE)
		return WINE(OpenSCManagerW, machine, database, access);
	return new_handle(NULL, access);
}

/* wine_manager is Wine's handle behind ours, made when it is first needed. */
static SC_HANDLE wine_manager(struct handle *p)
{
	if (!p->wine)
		p->wine = WINE(OpenSCManagerW, NULL, NULL, p->access);
	return p->wine;
}

SC_HANDLE WINAPI OpenServiceW(SC_HANDLE manager, const WCHAR *name, DWORD access)
{
	struct handle *p = ours(manager);
	DWORD error;

	if (!p)
		return WINE(OpenServiceW, manager, name, access);
	error = ask(L"open", name, NULL, NULL);
	if (error == ERROR_SUCCESS)
		return new_handle(name, access);
	if (error == ERROR_SERVICE_DOES_NOT_EXIST && wine_manager(p))
		return WINE(OpenServiceW, p->wine, name, access);
	SetLastError(error);
	return NULL;
}

/* registry returns a function of the registry, which no library may import that advapi32.dll imports. */
static FARPROC registry(const char *name)
{
	return GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), name);
}

#define REGISTRY(function, ...) (((typeof(function) *)(void *)registry(#function))(__VA_ARGS__))

/* The key of a service, with its parameters and its Environment, is there as long as the service. What scmd keeps of the service is not in
 * it: Wine's own manager takes a key with Type for a service of its own. */
static void key_of(const WCHAR *service, WCHAR *key)
{
	lstrcpyW(key, L"SYSTEM\\CurrentControlSet\\Services\\");
	lstrcatW(key, service);
}

enum { KEY_ROOM = 300 };

static void make_key(const WCHAR *service)
{
	WCHAR name[KEY_ROOM];
	HKEY key;

	key_of(service, name);
	if (!REGISTRY(RegCreateKeyExW, HKEY_LOCAL_MACHINE, name, 0, NULL, 0, KEY_WRITE, NULL, &key, NULL))
		REGISTRY(RegCloseKey, key);
}

static void remove_key(const WCHAR *service)
{
	WCHAR name[KEY_ROOM];

	key_of(service, name);
	REGISTRY(RegDeleteTreeW, HKEY_LOCAL_MACHINE, name);
}

SC_HANDLE WINAPI CreateServiceW(SC_HANDLE manager, const WCHAR *name, const WCHAR *display, DWORD access, DWORD type, DWORD start,
				DWORD severity, const WCHAR *path, const WCHAR *group, DWORD *tag, const WCHAR *dependencies,
				const WCHAR *account, const WCHAR *password)
{
	struct handle *p = ours(manager);
	struct text t = { 0 };
	DWORD error;

	if (!p || !(type & SERVICE_WIN32))
		return WINE(CreateServiceW, p ? wine_manager(p) : manager, name, display, access, type, start, severity, path, group, tag, dependencies,
			    account, password);
	put_number(&t, type);
	put_number(&t, start);
	put_number(&t, severity);
	put_field(&t, path);
	put_field(&t, group);
	put_list(&t, dependencies);
	put_field(&t, account);
	put_field(&t, display);
	error = ask(L"create", name, &t, NULL);
	if (error == ERROR_SUCCESS) {
		make_key(name);
		return new_handle(name, access);
	}
	SetLastError(error);
	return NULL;
}

BOOL WINAPI CloseServiceHandle(SC_HANDLE handle)
{
	struct handle *p = ours(handle);

	if (!p)
		return WINE(CloseServiceHandle, handle);
	if (p->name[0])
		ask(L"close", p->name, NULL, NULL);
	if (p->wine)
		WINE(CloseServiceHandle, p->wine);
	p->mark = NULL;
	free(p);
	return TRUE;
}

BOOL WINAPI DeleteService(SC_HANDLE service)
{
	struct handle *p = ours(service);

	DWORD error;

	if (!p)
		return WINE(DeleteService, service);
	error = ask(L"delete", p->name, NULL, NULL);
	if (error == ERROR_SUCCESS)
		remove_key(p->name);
	return result(error);
}

/* ---- configuration ---- */

BOOL WINAPI ChangeServiceConfigW(SC_HANDLE service, DWORD type, DWORD start, DWORD severity, const WCHAR *path, const WCHAR *group, DWORD *tag,
				 const WCHAR *dependencies, const WCHAR *account, const WCHAR *password, const WCHAR *display)
{
	struct handle *p = ours(service);
	struct text t = { 0 };

	if (!p)
		return WINE(ChangeServiceConfigW, service, type, start, severity, path, group, tag, dependencies, account, password, display);
	put_number(&t, type);
	put_number(&t, start);
	put_number(&t, severity);
	put_field(&t, path);
	put_field(&t, group);
	put_list(&t, dependencies);
	put_field(&t, account);
	put_field(&t, display);
	return result(ask(L"change", p->name, &t, NULL));
}

static void put_actions(struct text *t, const SERVICE_FAILURE_ACTIONSW *a)
{
	DWORD i;

	put_number(t, a->dwResetPeriod);
	put_field(t, a->lpRebootMsg);
	put_field(t, a->lpCommand);
	put_number(t, a->lpsaActions ? a->cActions : (DWORD)-1); /* no array: those of before stay */
	for (i = 0; a->lpsaActions && i < a->cActions; i++) {
		put_number(t, a->lpsaActions[i].Type);
		put_number(t, a->lpsaActions[i].Delay);
	}
}

BOOL WINAPI ChangeServiceConfig2W(SC_HANDLE service, DWORD level, void *info)
{
	struct handle *p = ours(service);
	struct text t = { 0 };

	if (!p)
		return WINE(ChangeServiceConfig2W, service, level, info);
	if (!info)
		return TRUE; /* nothing changes, says the documentation */
	put_number(&t, level);
	switch (level) {
	case SERVICE_CONFIG_DESCRIPTION:
		put_field(&t, ((SERVICE_DESCRIPTIONW *)info)->lpDescription);
		break;
	case SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO:
		put_list(&t, ((SERVICE_REQUIRED_PRIVILEGES_INFOW *)info)->pmszRequiredPrivileges);
		break;
	case SERVICE_CONFIG_FAILURE_ACTIONS:
		put_actions(&t, info);
		break;
	case SERVICE_CONFIG_DELAYED_AUTO_START_INFO:
	case SERVICE_CONFIG_FAILURE_ACTIONS_FLAG:
	case SERVICE_CONFIG_SERVICE_SID_INFO:
	case SERVICE_CONFIG_PRESHUTDOWN_INFO:
		put_number(&t, *(DWORD *)info);
	}
	return result(ask(L"change2", p->name, &t, NULL));
}

/* A buffer of the caller: a structure at its beginning, and texts behind it. */
struct buffer {
	char *start;
	size_t room, used;
};

/* place copies to the buffer if there is room, and counts in any case. */
static void *place(struct buffer *b, const void *data, size_t size)
{
	char *at = b->start + b->used;

	b->used += size;
	if (b->used > b->room)
		return NULL;
	memcpy(at, data, size);
	return at;
}

static WCHAR *place_text(struct buffer *b, const WCHAR *s)
{
	if (*s == NONE)
		return NULL;
	return place(b, s, (lstrlenW(s) + 1) * sizeof(WCHAR));
}

/* place_list places a list as REG_MULTI_SZ; it changes the field. */
static WCHAR *place_list(struct buffer *b, WCHAR *s)
{
	size_t n = lstrlenW(s), i;

	for (i = 0; i < n; i++)
		if (s[i] == ITEM)
			s[i] = 0;
	return place(b, s, (n + (n ? 1 : 2)) * sizeof(WCHAR));
}

static BOOL enough(const struct buffer *b, DWORD *needed)
{
	if (needed)
		*needed = (DWORD)b->used;
	return result(b->used > b->room ? ERROR_INSUFFICIENT_BUFFER : ERROR_SUCCESS);
}

BOOL WINAPI QueryServiceConfigW(SC_HANDLE service, QUERY_SERVICE_CONFIGW *to, DWORD size, DWORD *needed)
{
	struct handle *p = ours(service);
	struct buffer b = { (char *)to, size, sizeof *to };
	QUERY_SERVICE_CONFIGW c = { 0 };
	WCHAR *answer, *rest;
	DWORD error;

	if (!p)
		return WINE(QueryServiceConfigW, service, to, size, needed);
	error = ask(L"config", p->name, NULL, &answer);
	if (error)
		return result(error);
	rest = answer;
	c.dwServiceType = number(&rest);
	c.dwStartType = number(&rest);
	c.dwErrorControl = number(&rest);
	c.lpBinaryPathName = place_text(&b, field(&rest, FIELD));
	c.lpLoadOrderGroup = place_text(&b, field(&rest, FIELD));
	c.lpDependencies = place_list(&b, field(&rest, FIELD));
	c.lpServiceStartName = place_text(&b, field(&rest, FIELD));
	c.lpDisplayName = place_text(&b, field(&rest, FIELD));
	LocalFree(answer);
	if (!enough(&b, needed))
		return FALSE;
	*to = c;
	return TRUE;
}

static void read_actions(struct buffer *b, SERVICE_FAILURE_ACTIONSW *a, WCHAR *rest)
{
	SC_ACTION action;
	DWORD i;

	a->dwResetPeriod = number(&rest);
	a->lpRebootMsg = place_text(b, field(&rest, FIELD));
	a->lpCommand = place_text(b, field(&rest, FIELD));
	a->cActions = number(&rest);
	b->used = (b->used + 3) & ~(size_t)3;
	for (i = 0; i < a->cActions; i++) {
		SC_ACTION *at;
		action.Type = number(&rest);
		action.Delay = number(&rest);
		at = place(b, &action, sizeof action);
		if (i == 0)
			a->lpsaActions = at;
	}
}

BOOL WINAPI QueryServiceConfig2W(SC_HANDLE service, DWORD level, BYTE *to, DWORD size, DWORD *needed)
{
	struct handle *p = ours(service);
	struct buffer b = { (char *)to, size, 0 };
	union {
		SERVICE_DESCRIPTIONW description;
		SERVICE_REQUIRED_PRIVILEGES_INFOW privileges;
		SERVICE_FAILURE_ACTIONSW actions;
		DWORD number;
	} info;
	struct text t = { 0 };
	WCHAR *answer, *rest;
	size_t head;
	DWORD error;

	if (!p)
		return WINE(QueryServiceConfig2W, service, level, to, size, needed);
	memset(&info, 0, sizeof info);
	put_number(&t, level);
	error = ask(L"config2", p->name, &t, &answer);
	if (error)
		return result(error);
	rest = answer;
	switch (level) {
	case SERVICE_CONFIG_DESCRIPTION:
		b.used = head = sizeof info.description;
		info.description.lpDescription = place_text(&b, field(&rest, FIELD));
		break;
	case SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO:
		b.used = head = sizeof info.privileges;
		info.privileges.pmszRequiredPrivileges = place_list(&b, field(&rest, FIELD));
		break;
	case SERVICE_CONFIG_FAILURE_ACTIONS:
		b.used = head = sizeof info.actions;
		read_actions(&b, &info.actions, rest);
		break;
	default:
		b.used = head = sizeof info.number;
		info.number = number(&rest);
	}
	LocalFree(answer);
	if (!enough(&b, needed))
		return FALSE;
	memcpy(to, &info, head);
	return TRUE;
}

/* ---- status and control ---- */

static void read_status(WCHAR **rest, SERVICE_STATUS_PROCESS *s)
{
	memset(s, 0, sizeof *s);
	s->dwServiceType = number(rest);
	s->dwCurrentState = number(rest);
	s->dwControlsAccepted = number(rest);
	s->dwWin32ExitCode = number(rest);
	s->dwServiceSpecificExitCode = number(rest);
	s->dwCheckPoint = number(rest);
	s->dwWaitHint = number(rest);
	s->dwProcessId = number(rest);
}

/* ask_status calls a function whose answer, failed or not, is the status of the service. */
static DWORD ask_status(const WCHAR *function, const WCHAR *service, struct text *args, SERVICE_STATUS_PROCESS *s)
{
	WCHAR *answer, *rest;
	DWORD error = ask(function, service, args, &answer);

	rest = answer;
	if (answer)
		read_status(&rest, s);
	LocalFree(answer);
	return error;
}

BOOL WINAPI QueryServiceStatus(SC_HANDLE service, SERVICE_STATUS *to)
{
	struct handle *p = ours(service);
	SERVICE_STATUS_PROCESS s = { 0 };

	if (!p)
		return WINE(QueryServiceStatus, service, to);
	if (!result(ask_status(L"status", p->name, NULL, &s)))
		return FALSE;
	memcpy(to, &s, sizeof *to); /* the longer structure begins with the shorter */
	return TRUE;
}

BOOL WINAPI QueryServiceStatusEx(SC_HANDLE service, SC_STATUS_TYPE level, BYTE *to, DWORD size, DWORD *needed)
{
	struct handle *p = ours(service);
	SERVICE_STATUS_PROCESS s = { 0 };

	if (!p)
		return WINE(QueryServiceStatusEx, service, level, to, size, needed);
	*needed = sizeof s;
	if (size < sizeof s)
		return result(ERROR_INSUFFICIENT_BUFFER);
	if (!result(ask_status(L"status", p->name, NULL, &s)))
		return FALSE;
	memcpy(to, &s, sizeof s);
	return TRUE;
}

BOOL WINAPI StartServiceW(SC_HANDLE service, DWORD count, const WCHAR **args)
{
	struct handle *p = ours(service);
	struct text t = { 0 };

	if (!p)
		return WINE(StartServiceW, service, count, args);
	put_strings(&t, count, args);
	return result(ask(L"start", p->name, &t, NULL));
}

BOOL WINAPI ControlService(SC_HANDLE service, DWORD control, SERVICE_STATUS *to)
{
	struct handle *p = ours(service);
	SERVICE_STATUS_PROCESS s = { 0 };
	struct text t = { 0 };
	DWORD error;

	if (!p)
		return WINE(ControlService, service, control, to);
	put_number(&t, control);
	error = ask_status(L"control", p->name, &t, &s);
	if (to)
		memcpy(to, &s, sizeof *to);
	return result(error);
}

/* read_list returns the records that ask answered with, or its error: name, display name, status. Each becomes a structure of
 * size each. It frees the answer. */
static BOOL read_list(DWORD error, WCHAR *answer, size_t each, struct buffer *b, DWORD *needed, DWORD *returned)
{
	WCHAR *rest, *p;
	DWORD count = 0;
	size_t i;

	if (error)
		return result(error);
	for (p = answer; p && *p; p++)
		count += *p == RECORD;
	b->used = count * each;
	for (i = 0, rest = answer; i < count; i++) {
		ENUM_SERVICE_STATUS_PROCESSW e = { 0 };
		WCHAR *record = field(&rest, RECORD);
		e.lpServiceName = place_text(b, field(&record, FIELD));
		e.lpDisplayName = place_text(b, field(&record, FIELD));
		read_status(&record, &e.ServiceStatusProcess);
		if ((i + 1) * each <= b->room)
			memcpy(b->start + i * each, &e, each); /* the longer structure begins with the shorter */
	}
	LocalFree(answer);
	*needed = b->used > b->room ? (DWORD)b->used : 0;
	*returned = b->used > b->room ? 0 : count;
	return result(b->used > b->room ? ERROR_MORE_DATA : ERROR_SUCCESS);
}

BOOL WINAPI EnumServicesStatusExW(SC_HANDLE manager, SC_ENUM_TYPE level, DWORD type, DWORD state, BYTE *to, DWORD size, DWORD *needed,
				  DWORD *returned, DWORD *resume, const WCHAR *group)
{
	struct handle *p = ours(manager);
	struct buffer b = { (char *)to, size, 0 };
	struct text t = { 0 };
	WCHAR *answer;
	DWORD error;

	if (!p)
		return WINE(EnumServicesStatusExW, manager, level, type, state, to, size, needed, returned, resume, group);
	put_number(&t, type);
	put_number(&t, state);
	error = ask(L"list", NULL, &t, &answer);
	return read_list(error, answer, sizeof(ENUM_SERVICE_STATUS_PROCESSW), &b, needed, returned);
}

BOOL WINAPI EnumDependentServicesW(SC_HANDLE service, DWORD state, ENUM_SERVICE_STATUSW *to, DWORD size, DWORD *needed, DWORD *returned)
{
	struct handle *p = ours(service);
	struct buffer b = { (char *)to, size, 0 };
	struct text t = { 0 };
	WCHAR *answer;
	DWORD error;

	if (!p)
		return WINE(EnumDependentServicesW, service, state, to, size, needed, returned);
	put_number(&t, state);
	error = ask(L"dependents", p->name, &t, &answer);
	return read_list(error, answer, sizeof(ENUM_SERVICE_STATUSW), &b, needed, returned);
}

/* ---- being a service ---- */

/* The one service of this process. */
static struct {
	WCHAR *name;
	LPSERVICE_MAIN_FUNCTIONW main;
	LPHANDLER_FUNCTION_EX handler_ex;
	LPHANDLER_FUNCTION handler;
	void *context;
} self;

static DWORD WINAPI service_main(void *given)
{
	WCHAR *rest = given, *args[64];
	DWORD count = 0;

	while (*rest && count < 64)
		args[count++] = field(&rest, ITEM);
	self.main(count, args);
	LocalFree(given);
	return 0;
}

static DWORD handle_control(DWORD control)
{
	if (self.handler_ex)
		return self.handler_ex(control, 0, NULL, self.context);
	if (!self.handler)
		return ERROR_SERVICE_CANNOT_ACCEPT_CTRL;
	self.handler(control);
	return NO_ERROR;
}

/* Wine keeps no event log. What a service writes to it goes to scmd: the functions of advapi32.dll are led here. A handle is the
 * name of the source. */
static HANDLE WINAPI register_source(const WCHAR *server, const WCHAR *source)
{
	(void)server;
	return _wcsdup(source);
}

static BOOL WINAPI deregister_source(HANDLE source)
{
	free(source);
	return TRUE;
}

static BOOL WINAPI report_event(HANDLE source, WORD type, WORD category, DWORD id, void *user, WORD count, DWORD size, const WCHAR **strings,
				void *data)
{
	struct text t = { 0 };

	(void)category, (void)user, (void)size, (void)data;
	put_number(&t, type);
	put_number(&t, id);
	put_strings(&t, count, strings);
	return result(ask(L"event", source, &t, NULL));
}

/* lead makes a function of a library jump to another: mov rax, address; jmp rax. */
static void lead(HMODULE library, const char *name, void *to)
{
	unsigned char *at = (void *)GetProcAddress(library, name), code[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
	DWORD protection;

	if (!at || !VirtualProtect(at, sizeof code, PAGE_EXECUTE_READWRITE, &protection))
		return;
	memcpy(code + 2, &to, sizeof to);
	memcpy(at, code, sizeof code);
	VirtualProtect(at, sizeof code, protection, &protection);
}

static void lead_event_log(void)
{
	HMODULE library = LoadLibraryW(L"advapi32.dll");

	lead(library, "RegisterEventSourceW", register_source);
	lead(library, "DeregisterEventSource", deregister_source);
	lead(library, "ReportEventW", report_event);
}

BOOL WINAPI StartServiceCtrlDispatcherW(const SERVICE_TABLE_ENTRYW *table)
{
	struct call c = { OP_SCM_DISPATCH, (uint64_t)linux_call(SYS_GETPID, 0, 0, 0, 0, 0), NULL, { L"", L"", L"" }, { NULL, NULL } };
	HRESULT event;
	int fd = wire_open();

	if (fd == NO_WIRE)
		return WINE(StartServiceCtrlDispatcherW, table);
	if (wire_send(fd, &c) != 0 || wire_receive(fd, &c, &event) != 0 || event != ERROR_SUCCESS) { /* one of Wine's, or a plain program */
		wire_close(fd);
		return WINE(StartServiceCtrlDispatcherW, table);
	}
	self.name = c.out[0];
	wire_free(c.out[1]);
	c.out[0] = c.out[1] = NULL;
	self.main = table->lpServiceProc;
	lead_event_log();
	while (wire_receive(fd, &c, &event) == 0 && event != SCM_END) {
		struct call done = { OP_SCM_DONE, 0, NULL, { L"", L"", L"" }, { NULL, NULL } };
		if (event == SCM_START)
			CloseHandle(CreateThread(NULL, 0, service_main, c.out[0], 0, NULL)); /* it frees its arguments */
		else {
			done.handle = handle_control((DWORD)c.handle);
			wire_free(c.out[0]);
		}
		wire_free(c.out[1]);
		c.out[0] = c.out[1] = NULL;
		if (wire_send(fd, &done) != 0)
			break;
	}
	wire_close(fd);
	return TRUE;
}

SERVICE_STATUS_HANDLE WINAPI RegisterServiceCtrlHandlerExW(const WCHAR *name, LPHANDLER_FUNCTION_EX handler, void *context)
{
	if (!self.name)
		return WINE(RegisterServiceCtrlHandlerExW, name, handler, context);
	self.context = context;
	self.handler_ex = handler;
	return (SERVICE_STATUS_HANDLE)&self;
}

SERVICE_STATUS_HANDLE WINAPI RegisterServiceCtrlHandlerW(const WCHAR *name, LPHANDLER_FUNCTION handler)
{
	if (!self.name)
		return WINE(RegisterServiceCtrlHandlerW, name, handler);
	self.handler = handler;
	return (SERVICE_STATUS_HANDLE)&self;
}

BOOL WINAPI SetServiceStatus(SERVICE_STATUS_HANDLE handle, SERVICE_STATUS *s)
{
	struct text t = { 0 };

	if ((void *)handle != (void *)&self)
		return WINE(SetServiceStatus, handle, s);
	put_number(&t, s->dwServiceType);
	put_number(&t, s->dwCurrentState);
	put_number(&t, s->dwControlsAccepted);
	put_number(&t, s->dwWin32ExitCode);
	put_number(&t, s->dwServiceSpecificExitCode);
	put_number(&t, s->dwCheckPoint);
	put_number(&t, s->dwWaitHint);
	return result(ask(L"report", self.name, &t, NULL));
}

/* Wine's cmd.exe loads neither of the libraries from which other programs get what mend.h tells of, but this one. */
__attribute__((constructor)) static void mend_cmd(void)
{
	static const WCHAR name[] = L"\\cmd.exe";
	enum { NAME = sizeof name / sizeof *name - 1 };
	WCHAR path[MAX_PATH];
	DWORD length = GetModuleFileNameW(NULL, path, MAX_PATH);

	if (length < MAX_PATH && length > NAME && !lstrcmpiW(path + length - NAME, name))
		LoadLibraryW(L"bcryptprimitives.dll");
}
