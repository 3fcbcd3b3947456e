/* computenetwork.dll: the HCN functions, each one call to hnsd. */
#include "forget.h"
#include "notify.h"

typedef uint64_t handle_t64;

#define API __declspec(dllexport) HRESULT WINAPI

static void give(WCHAR **to, WCHAR *text)
{
	if (to)
		*to = text;
	else
		wire_free(text);
}

/* Answers: out[0] is the result (ids, properties), out[1] the error record. */
static HRESULT finish(struct call *c, WCHAR **result, WCHAR **record)
{
	HRESULT hr;

	if (result)
		*result = NULL;
	if (record)
		*record = NULL;
	hr = wire_call(c);
	forget_adapters();
	give(result, c->out[0]);
	give(record, c->out[1]);
	return hr;
}

static HRESULT with_handle(struct call *c, handle_t64 *handle, WCHAR **record)
{
	HRESULT hr;

	if (!handle)
		return E_POINTER;
	*handle = 0;
	hr = finish(c, NULL, record);
	if (SUCCEEDED(hr))
		*handle = c->handle;
	return hr;
}

#define OBJECT(X, XS, P, K)                                                                        \
	API HcnEnumerate##XS(const WCHAR *query, WCHAR **ids, WCHAR **record)                      \
	{                                                                                          \
		struct call c = { K + FN_ENUMERATE, 0, NULL, { query } };                          \
		return finish(&c, ids, record);                                                    \
	}                                                                                          \
	API HcnOpen##X(const GUID *id, handle_t64 *handle, WCHAR **record)                         \
	{                                                                                          \
		struct call c = { K + FN_OPEN, 0, id, { NULL } };                                  \
		return with_handle(&c, handle, record);                                            \
	}                                                                                          \
	API HcnModify##X(handle_t64 handle, const WCHAR *settings, WCHAR **record)                 \
	{                                                                                          \
		struct call c = { K + FN_MODIFY, handle, NULL, { settings } };                     \
		return finish(&c, NULL, record);                                                   \
	}                                                                                          \
	API HcnQuery##P(handle_t64 handle, const WCHAR *query, WCHAR **properties, WCHAR **record) \
	{                                                                                          \
		struct call c = { K + FN_QUERY, handle, NULL, { query } };                         \
		return finish(&c, properties, record);                                             \
	}                                                                                          \
	API HcnDelete##X(const GUID *id, WCHAR **record)                                           \
	{                                                                                          \
		struct call c = { K + FN_DELETE, 0, id, { NULL } };                                \
		return finish(&c, NULL, record);                                                   \
	}                                                                                          \
	API HcnClose##X(handle_t64 handle)                                                         \
	{                                                                                          \
		struct call c = { K + FN_CLOSE, handle, NULL, { NULL } };                          \
		return finish(&c, NULL, NULL);                                                     \
	}

#define CREATABLE(X, K)                                                                            \
	API HcnCreate##X(const GUID *id, const WCHAR *settings, handle_t64 *handle, WCHAR **record) \
	{                                                                                          \
		struct call c = { K + FN_CREATE, 0, id, { settings } };                            \
		return with_handle(&c, handle, record);                                            \
	}

OBJECT(Network, Networks, NetworkProperties, OP_NETWORK)
OBJECT(Endpoint, Endpoints, EndpointProperties, OP_ENDPOINT)
OBJECT(Namespace, Namespaces, NamespaceProperties, OP_NAMESPACE)
OBJECT(LoadBalancer, LoadBalancers, LoadBalancerProperties, OP_LOADBALANCER)
OBJECT(SdnRoute, SdnRoutes, SdnRouteProperties, OP_SDNROUTE)
CREATABLE(Network, OP_NETWORK)
CREATABLE(Namespace, OP_NAMESPACE)
CREATABLE(LoadBalancer, OP_LOADBALANCER)
CREATABLE(SdnRoute, OP_SDNROUTE)

/* The only create with a parent: the network's open handle comes first. */
API HcnCreateEndpoint(handle_t64 network, const GUID *id, const WCHAR *settings, handle_t64 *handle, WCHAR **record)
{
	struct call c = { OP_ENDPOINT + FN_CREATE, network, id, { settings } };
	return with_handle(&c, handle, record);
}

API HcnRegisterServiceCallback(void *callback, void *context, void **handle)
{
	struct call c = { OP_NOTIFY };

	return notify_add(wire_open(), &c, callback, context, handle);
}

API HcnUnregisterServiceCallback(void *handle)
{
	return notify_remove(handle);
}

/* Present on Windows, used by no program in scope: they say that they are not implemented. */
#define STUB(X) API X(void) { return E_NOTIMPL; }
STUB(HcnQueryEndpointStats)
STUB(HcnQueryEndpointAddresses)
STUB(HcnOpenService)
STUB(HcnCloseService)
STUB(HcnRegisterGuestNetworkServiceCallback)
STUB(HcnUnregisterGuestNetworkServiceCallback)
STUB(HcnCreateGuestNetworkService)
STUB(HcnCloseGuestNetworkService)
STUB(HcnModifyGuestNetworkService)
STUB(HcnDeleteGuestNetworkService)
STUB(HcnReserveGuestNetworkServicePort)
STUB(HcnReserveGuestNetworkServicePortRange)
STUB(HcnReleaseGuestNetworkServicePortReservationHandle)
STUB(HcnEnumerateGuestNetworkPortReservations)
STUB(HcnFreeGuestNetworkPortReservations)
