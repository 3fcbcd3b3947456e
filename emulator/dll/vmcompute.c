/* vmcompute.dll: HNSCall, the first generation of the HNS interface. The compute functions of the same library are
 * stubs, so that a stray call answers an error. */
#include "forget.h"
#include "wire.h"

#define API __declspec(dllexport) HRESULT WINAPI

API HNSCall(const WCHAR *method, const WCHAR *path, const WCHAR *body, WCHAR **response)
{
	struct call c = { OP_HNSCALL, 0, NULL, { method, path, body } };
	HRESULT hr;

	if (response)
		*response = NULL;
	hr = wire_call(&c);
	forget_adapters();
	CoTaskMemFree(c.out[1]);
	if (response)
		*response = c.out[0];
	else
		CoTaskMemFree(c.out[0]);
	return hr;
}

#define STUB(X) API X(void) { return E_NOTIMPL; }
STUB(HcsEnumerateComputeSystems)
STUB(HcsCreateComputeSystem)
STUB(HcsOpenComputeSystem)
STUB(HcsCloseComputeSystem)
STUB(HcsStartComputeSystem)
STUB(HcsShutdownComputeSystem)
STUB(HcsTerminateComputeSystem)
STUB(HcsPauseComputeSystem)
STUB(HcsResumeComputeSystem)
STUB(HcsGetComputeSystemProperties)
STUB(HcsModifyComputeSystem)
STUB(HcsModifyServiceSettings)
STUB(HcsGetServiceProperties)
STUB(HcsRegisterComputeSystemCallback)
STUB(HcsUnregisterComputeSystemCallback)
STUB(HcsSaveComputeSystem)
STUB(HcsCreateProcess)
STUB(HcsOpenProcess)
STUB(HcsCloseProcess)
STUB(HcsTerminateProcess)
STUB(HcsSignalProcess)
STUB(HcsGetProcessInfo)
STUB(HcsGetProcessProperties)
STUB(HcsModifyProcess)
STUB(HcsRegisterProcessCallback)
STUB(HcsUnregisterProcessCallback)
