/* hnetcfg.dll: the rules of the host's inbound firewall, as programs make them by COM (netfw.h: INetFwPolicy2, INetFwRules, INetFwRule). Wine's
 * says that all is well and keeps nothing. Rules are values of the registry key where Windows keeps them, in its format ([MS-GPFAS] 2.2.2);
 * after each change all of them go to hnsd, which puts them into force. Of a rule's properties those are kept that have a field below. */
#include "wire.h"

#define COBJMACROS
#include <initguid.h>
#include <netfw.h>
#include <objbase.h>
#include <oleauto.h>
#include <stdio.h>
#include <wchar.h>

#define RULES L"SYSTEM\\CurrentControlSet\\Services\\SharedAccess\\Parameters\\FirewallPolicy\\FirewallRules"
enum { LONGEST = 4096, ANY_PROTOCOL = 256, TCP = 6, UDP = 17, PUBLIC_PROFILE = 4 };

enum text { NAME, DESCRIPTION, PROGRAM, SERVICE, PORTS, REMOTE_PORTS, LOCAL, REMOTE, GROUPING, TEXTS };

/* Names of the texts in the registry. Ports have one field each. */
static const WCHAR *const fields[TEXTS] = {L"Name", L"Desc", L"App", L"Svc", L"LPort", L"RPort", L"LA4", L"RA4", L"EmbedCtxt"};

struct rule {
	INetFwRule iface;
	LONG count;
	WCHAR *text[TEXTS]; /* NULL: not set */
	LONG protocol;
	BOOL enabled, block, out;
	LONG profiles;
};

struct object { /* the policy, its rules, a class */
	const void *table;
	LONG count;
	REFCLSID class;
};

static WCHAR *copy(const WCHAR *from)
{
	size_t size = (wcslen(from) + 1) * sizeof *from;
	WCHAR *to = HeapAlloc(GetProcessHeap(), 0, size);

	if (to)
		memcpy(to, from, size);
	return to;
}

static void set(WCHAR **to, const WCHAR *text)
{
	HeapFree(GetProcessHeap(), 0, *to);
	*to = text && *text ? copy(text) : NULL;
}

/* IUnknown and IDispatch of all objects. Nobody asks by name. */
static ULONG WINAPI add_ref(void *self) { return InterlockedIncrement(&((struct object *)self)->count); }

static HRESULT WINAPI no_names(void) { return E_NOTIMPL; }

/* The rule. */

static struct rule *rule_of(INetFwRule *iface) { return (struct rule *)iface; }

static HRESULT WINAPI rule_query(INetFwRule *iface, REFIID id, void **out)
{
	*out = IsEqualGUID(id, &IID_INetFwRule) || IsEqualGUID(id, &IID_IDispatch) || IsEqualGUID(id, &IID_IUnknown) ? iface : NULL;
	if (!*out)
		return E_NOINTERFACE;
	INetFwRule_AddRef(iface);
	return S_OK;
}

static ULONG WINAPI rule_add_ref(INetFwRule *iface) { return InterlockedIncrement(&rule_of(iface)->count); }

static ULONG WINAPI rule_release(INetFwRule *iface)
{
	struct rule *r = rule_of(iface);
	LONG left = InterlockedDecrement(&r->count);
	int i;

	if (left)
		return left;
	for (i = 0; i < TEXTS; i++)
		HeapFree(GetProcessHeap(), 0, r->text[i]);
	HeapFree(GetProcessHeap(), 0, r);
	return 0;
}

#define TEXT_PROPERTY(name, field)                                                                                                          \
	static HRESULT WINAPI rule_get_##name(INetFwRule *iface, BSTR *out)                                                                \
	{                                                                                                                                   \
		*out = rule_of(iface)->text[field] ? SysAllocString(rule_of(iface)->text[field]) : NULL;                                   \
		return S_OK;                                                                                                                \
	}                                                                                                                                   \
	static HRESULT WINAPI rule_put_##name(INetFwRule *iface, BSTR in)                                                                  \
	{                                                                                                                                   \
		if (in && wcschr(in, '|'))                                                                                                  \
			return E_INVALIDARG;                                                                                                \
		if ((field == PORTS || field == REMOTE_PORTS) && rule_of(iface)->protocol != TCP && rule_of(iface)->protocol != UDP)       \
			return E_INVALIDARG; /* Microsoft, put_LocalPorts: the protocol is set before */                                    \
		set(&rule_of(iface)->text[field], in);                                                                                      \
		return S_OK;                                                                                                                \
	}
TEXT_PROPERTY(name, NAME)
TEXT_PROPERTY(description, DESCRIPTION)
TEXT_PROPERTY(program, PROGRAM)
TEXT_PROPERTY(service, SERVICE)
TEXT_PROPERTY(ports, PORTS)
TEXT_PROPERTY(remote_ports, REMOTE_PORTS)
TEXT_PROPERTY(local, LOCAL)
TEXT_PROPERTY(remote, REMOTE)
TEXT_PROPERTY(group, GROUPING)

#define NUMBER_PROPERTY(name, type, get, put)                                                                                               \
	static HRESULT WINAPI rule_get_##name(INetFwRule *iface, type *out)                                                                \
	{                                                                                                                                   \
		struct rule *r = rule_of(iface);                                                                                            \
		*out = get;                                                                                                                 \
		return S_OK;                                                                                                                \
	}                                                                                                                                   \
	static HRESULT WINAPI rule_put_##name(INetFwRule *iface, type in)                                                                  \
	{                                                                                                                                   \
		struct rule *r = rule_of(iface);                                                                                            \
		put;                                                                                                                        \
		return S_OK;                                                                                                                \
	}
NUMBER_PROPERTY(protocol, LONG, r->protocol, r->protocol = in)
NUMBER_PROPERTY(direction, NET_FW_RULE_DIRECTION, r->out ? NET_FW_RULE_DIR_OUT : NET_FW_RULE_DIR_IN, r->out = in == NET_FW_RULE_DIR_OUT)
NUMBER_PROPERTY(enabled, VARIANT_BOOL, r->enabled ? VARIANT_TRUE : VARIANT_FALSE, r->enabled = in != VARIANT_FALSE)
NUMBER_PROPERTY(profiles, LONG, r->profiles, r->profiles = in)
NUMBER_PROPERTY(action, NET_FW_ACTION, r->block ? NET_FW_ACTION_BLOCK : NET_FW_ACTION_ALLOW, r->block = in == NET_FW_ACTION_BLOCK)

static HRESULT WINAPI rule_get_edge(INetFwRule *iface, VARIANT_BOOL *out)
{
	(void)iface;
	*out = VARIANT_FALSE;
	return S_OK;
}

static INetFwRuleVtbl rule_table = {
	.QueryInterface = rule_query, .AddRef = rule_add_ref, .Release = rule_release,
	.get_Name = rule_get_name, .put_Name = rule_put_name, .get_Description = rule_get_description, .put_Description = rule_put_description,
	.get_ApplicationName = rule_get_program, .put_ApplicationName = rule_put_program,
	.get_ServiceName = rule_get_service, .put_ServiceName = rule_put_service, .get_Protocol = rule_get_protocol, .put_Protocol = rule_put_protocol,
	.get_LocalPorts = rule_get_ports, .put_LocalPorts = rule_put_ports, .get_RemotePorts = rule_get_remote_ports, .put_RemotePorts = rule_put_remote_ports,
	.get_LocalAddresses = rule_get_local, .put_LocalAddresses = rule_put_local, .get_RemoteAddresses = rule_get_remote, .put_RemoteAddresses = rule_put_remote,
	.get_Direction = rule_get_direction, .put_Direction = rule_put_direction, .get_Enabled = rule_get_enabled, .put_Enabled = rule_put_enabled,
	.get_Grouping = rule_get_group, .put_Grouping = rule_put_group, .get_Profiles = rule_get_profiles, .put_Profiles = rule_put_profiles,
	.get_Action = rule_get_action, .put_Action = rule_put_action, .get_EdgeTraversal = rule_get_edge,
};

/* A new rule is disabled, allows, and is for all that comes in (Microsoft, INetFwRule). */
static struct rule *new_rule(void)
{
	struct rule *r = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *r);

	if (r) {
		r->iface.lpVtbl = &rule_table;
		r->count = 1;
		r->protocol = ANY_PROTOCOL;
		r->profiles = NET_FW_PROFILE2_ALL;
	}
	return r;
}

/* Writes a rule as the registry has it. */
static void write_rule(const struct rule *r, WCHAR *to)
{
	WCHAR *end = to + swprintf(to, LONGEST, L"v2.29|Action=%ls|Active=%ls|Dir=%ls|", r->block ? L"Block" : L"Allow", r->enabled ? L"TRUE" : L"FALSE", r->out ? L"Out" : L"In");
	int i;

	if (r->protocol != ANY_PROTOCOL)
		end += swprintf(end, LONGEST, L"Protocol=%ld|", r->protocol);
	for (i = 0; i < TEXTS; i++) {
		WCHAR list[LONGEST], *state = NULL, *one;
		BOOL many = i == PORTS || i == REMOTE_PORTS;

		if (!r->text[i] || wcslen(r->text[i]) >= LONGEST / TEXTS - 64)
			continue;
		wcscpy(list, r->text[i]);
		for (one = many ? wcstok_s(list, L",", &state) : list; one; one = many ? wcstok_s(NULL, L",", &state) : NULL)
			end += swprintf(end, LONGEST, L"%ls%ls=%ls|", fields[i], many && wcschr(one, '-') ? L"2_10" : L"", one);
	}
}

/* Reads a rule from the registry's text, which it changes. */
static struct rule *read_rule(WCHAR *text)
{
	struct rule *r = new_rule();
	WCHAR *state = NULL, *field;
	int i;

	for (field = r ? wcstok_s(text, L"|", &state) : NULL; field; field = wcstok_s(NULL, L"|", &state)) {
		WCHAR *value = wcschr(field, '=');

		if (!value)
			continue;
		*value++ = 0;
		if (!_wcsicmp(field, L"Action"))
			r->block = !_wcsicmp(value, L"Block");
		else if (!_wcsicmp(field, L"Active"))
			r->enabled = !_wcsicmp(value, L"TRUE");
		else if (!_wcsicmp(field, L"Dir"))
			r->out = !_wcsicmp(value, L"Out");
		else if (!_wcsicmp(field, L"Protocol"))
			r->protocol = wcstol(value, NULL, 10);
		for (i = 0; i < TEXTS; i++) {
			WCHAR all[LONGEST];

			if (_wcsnicmp(field, fields[i], wcslen(fields[i])) || (field[wcslen(fields[i])] && wcscmp(field + wcslen(fields[i]), L"2_10")))
				continue;
			swprintf(all, LONGEST, L"%ls%ls%ls", r->text[i] ? r->text[i] : L"", r->text[i] ? L"," : L"", value);
			set(&r->text[i], all);
		}
	}
	return r;
}

/* Calls each with the rules of the registry until it returns FALSE. */
static void each_rule(HKEY key, BOOL (*each)(const WCHAR *id, WCHAR *text, void *data), void *data)
{
	DWORD i, type;

	for (i = 0;; i++) {
		WCHAR id[256], text[LONGEST];
		DWORD id_size = 256, size = sizeof text - sizeof *text;

		if (RegEnumValueW(key, i, id, &id_size, NULL, &type, (BYTE *)text, &size))
			return;
		text[size / sizeof *text] = 0;
		if (type == REG_SZ && !each(id, text, data))
			return;
	}
}

struct list {
	WCHAR *text;
	size_t used, room;
};

static void append(struct list *l, const WCHAR *text)
{
	for (; *text && l->used + 3 < l->room; text++) {
		if (*text == '\\' || *text == '"')
			l->text[l->used++] = '\\';
		l->text[l->used++] = *text;
	}
}

static BOOL append_rule(const WCHAR *id, WCHAR *text, void *data)
{
	struct list *l = data;

	(void)id;
	if (l->used + 2 * wcslen(text) + 8 > l->room) { /* the list grows */
		WCHAR *more = HeapReAlloc(GetProcessHeap(), 0, l->text, 2 * l->room * sizeof *more);

		if (!more)
			return FALSE;
		l->text = more;
		l->room *= 2;
	}
	if (l->used > 1)
		l->text[l->used++] = ',';
	l->text[l->used++] = '"';
	append(l, text);
	l->text[l->used++] = '"';
	return TRUE;
}

/* Sends all rules to hnsd: they are in force when it returns. */
static HRESULT announce(HKEY key)
{
	struct list l = {HeapAlloc(GetProcessHeap(), 0, 4 * LONGEST * sizeof(WCHAR)), 0, 4 * LONGEST};
	struct call c = {.op = OP_FIREWALL};
	HRESULT result;

	if (!l.text)
		return E_OUTOFMEMORY;
	l.text[l.used++] = '[';
	each_rule(key, append_rule, &l);
	l.text[l.used++] = ']';
	l.text[l.used] = 0;
	c.text[0] = l.text;
	result = wire_call(&c);
	HeapFree(GetProcessHeap(), 0, l.text);
	wire_free(c.out[0]);
	wire_free(c.out[1]);
	return result;
}

static HKEY open_rules(void)
{
	HKEY key;

	return RegCreateKeyExW(HKEY_LOCAL_MACHINE, RULES, 0, NULL, 0, KEY_ALL_ACCESS, NULL, &key, NULL) ? NULL : key;
}

/* The list of rules. */

struct wanted {
	const WCHAR *name;
	struct rule *found;
	WCHAR id[256];
};

static BOOL is_wanted(const WCHAR *id, WCHAR *text, void *data)
{
	struct wanted *w = data;
	struct rule *r = read_rule(text);

	if (!r || !r->text[NAME] || _wcsicmp(r->text[NAME], w->name)) {
		if (r)
			INetFwRule_Release(&r->iface);
		return TRUE;
	}
	w->found = r;
	wcscpy(w->id, id);
	return FALSE;
}

static HRESULT WINAPI rules_query(INetFwRules *iface, REFIID id, void **out)
{
	*out = IsEqualGUID(id, &IID_INetFwRules) || IsEqualGUID(id, &IID_IDispatch) || IsEqualGUID(id, &IID_IUnknown) ? iface : NULL;
	return *out ? add_ref(iface), S_OK : E_NOINTERFACE;
}

static ULONG WINAPI release(void *self) /* of objects that live as long as the program */
{
	return InterlockedDecrement(&((struct object *)self)->count);
}

static HRESULT WINAPI rules_add(INetFwRules *iface, INetFwRule *rule)
{
	WCHAR text[2 * LONGEST], id[64];
	HKEY key = open_rules();
	HRESULT result;
	GUID guid;

	(void)iface;
	if (!key)
		return E_ACCESSDENIED;
	write_rule(rule_of(rule), text);
	CoCreateGuid(&guid);
	StringFromGUID2(&guid, id, 64);
	result = RegSetValueExW(key, id, 0, REG_SZ, (BYTE *)text, (DWORD)((wcslen(text) + 1) * sizeof *text)) ? E_FAIL : announce(key);
	RegCloseKey(key);
	return result;
}

/* Removes one rule of the name. That there is none is success (unverified, no. 140). */
static HRESULT WINAPI rules_remove(INetFwRules *iface, BSTR name)
{
	struct wanted w = {.name = name ? name : L""};
	HRESULT result = S_OK;
	HKEY key = open_rules();

	(void)iface;
	if (!key)
		return E_ACCESSDENIED;
	each_rule(key, is_wanted, &w);
	if (w.found) {
		INetFwRule_Release(&w.found->iface);
		result = RegDeleteValueW(key, w.id) ? E_FAIL : announce(key);
	}
	RegCloseKey(key);
	return result;
}

static HRESULT WINAPI rules_item(INetFwRules *iface, BSTR name, INetFwRule **out)
{
	struct wanted w = {.name = name ? name : L""};
	HKEY key = open_rules();

	(void)iface;
	*out = NULL;
	if (!key)
		return E_ACCESSDENIED;
	each_rule(key, is_wanted, &w);
	RegCloseKey(key);
	if (!w.found)
		return HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND);
	*out = &w.found->iface;
	return S_OK;
}

static INetFwRulesVtbl rules_table = {
	.QueryInterface = rules_query, .AddRef = (void *)add_ref, .Release = (void *)release, .GetTypeInfoCount = (void *)no_names, .GetTypeInfo = (void *)no_names,
	.GetIDsOfNames = (void *)no_names, .Invoke = (void *)no_names, .get_Count = (void *)no_names, .Add = rules_add, .Remove = rules_remove, .Item = rules_item,
	.get__NewEnum = (void *)no_names,
};
static struct object the_rules = {&rules_table, 1, NULL};

/* The policy: the firewall is on, and rules of the host count. */

static HRESULT WINAPI policy_query(INetFwPolicy2 *iface, REFIID id, void **out)
{
	*out = IsEqualGUID(id, &IID_INetFwPolicy2) || IsEqualGUID(id, &IID_IDispatch) || IsEqualGUID(id, &IID_IUnknown) ? iface : NULL;
	return *out ? add_ref(iface), S_OK : E_NOINTERFACE;
}

static HRESULT WINAPI policy_rules(INetFwPolicy2 *iface, INetFwRules **out)
{
	(void)iface;
	add_ref(&the_rules);
	*out = (INetFwRules *)&the_rules;
	return S_OK;
}

static HRESULT WINAPI policy_enabled(INetFwPolicy2 *iface, NET_FW_PROFILE_TYPE2 profile, VARIANT_BOOL *out)
{
	(void)iface;
	(void)profile;
	*out = VARIANT_TRUE;
	return S_OK;
}

static HRESULT WINAPI policy_profiles(INetFwPolicy2 *iface, LONG *out)
{
	(void)iface;
	*out = PUBLIC_PROFILE;
	return S_OK;
}

static HRESULT WINAPI policy_state(INetFwPolicy2 *iface, NET_FW_MODIFY_STATE *out)
{
	(void)iface;
	*out = NET_FW_MODIFY_STATE_OK;
	return S_OK;
}

static INetFwPolicy2Vtbl policy_table = {
	.QueryInterface = policy_query, .AddRef = (void *)add_ref, .Release = (void *)release, .get_CurrentProfileTypes = policy_profiles,
	.get_FirewallEnabled = policy_enabled, .get_Rules = policy_rules, .get_LocalPolicyModifyState = policy_state,
};
static struct object the_policy = {&policy_table, 1, NULL};

/* Classes. */

static HRESULT WINAPI class_query(IClassFactory *iface, REFIID id, void **out)
{
	*out = IsEqualGUID(id, &IID_IClassFactory) || IsEqualGUID(id, &IID_IUnknown) ? iface : NULL;
	return *out ? add_ref(iface), S_OK : E_NOINTERFACE;
}

static HRESULT WINAPI class_create(IClassFactory *iface, IUnknown *outer, REFIID id, void **out)
{
	struct rule *r;
	HRESULT result;

	*out = NULL;
	if (outer)
		return CLASS_E_NOAGGREGATION;
	if (IsEqualGUID(((struct object *)iface)->class, &CLSID_NetFwPolicy2))
		return policy_query((INetFwPolicy2 *)&the_policy, id, out);
	if (!(r = new_rule()))
		return E_OUTOFMEMORY;
	result = rule_query(&r->iface, id, out);
	INetFwRule_Release(&r->iface);
	return result;
}

static HRESULT WINAPI class_lock(IClassFactory *iface, WINBOOL on)
{
	(void)iface;
	(void)on;
	return S_OK;
}

static IClassFactoryVtbl class_table = {class_query, (void *)add_ref, (void *)release, class_create, class_lock};
static struct object policy_class = {&class_table, 1, &CLSID_NetFwPolicy2}, rule_class = {&class_table, 1, &CLSID_NetFwRule};

__declspec(dllexport) HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID id, void **out)
{
	*out = NULL;
	if (IsEqualGUID(class, &CLSID_NetFwPolicy2))
		return class_query((IClassFactory *)&policy_class, id, out);
	if (IsEqualGUID(class, &CLSID_NetFwRule))
		return class_query((IClassFactory *)&rule_class, id, out);
	return CLASS_E_CLASSNOTAVAILABLE;
}

__declspec(dllexport) HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }
