/* Callbacks that a program registers with a service: HcnRegisterServiceCallback, HcsRegisterComputeSystemCallback and HcsRegisterProcessCallback. */
#ifndef NOTIFY_H
#define NOTIFY_H

#include "wire.h"

/* Registers a callback over wire, a connection to the service that becomes the registration's, whether it succeeds or not; c is the call that
 * asks for notifications. The service's are told from a thread of their own until notify_remove. When the service ends, the
 * callback is told SERVICE_DISCONNECT. */
HRESULT notify_add(int wire, const struct call *c, void *callback, void *context, void **handle);

/* Returns when no callback runs any more. It must not be called from one. */
HRESULT notify_remove(void *handle);

#endif
