package hcn

import (
	"context"
	"encoding/json"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/hns"
)

// Raw calls HNS with documents and ids as they are given, and returns answers as HNS wrote them. It is for programs
// that examine HNS; others use Client. A kind is Network, Endpoint, Namespace or LoadBalancer. Errors are *hns.Error
// with the code.
type Raw struct{ client *Client }

// NewRaw makes a Raw; it calls nothing. Of the options, Deadline, Parallel and Observe have effect.
func NewRaw(opts Options) Raw { return Raw{New(opts)} }

// Enumerate returns HNS's list of ids that a query matches, as JSON.
func (r Raw) Enumerate(ctx context.Context, kind, query string) (string, error) {
	return call(ctx, r.client, "enumerate", kind, func() (string, error) {
		q, err := windows.UTF16PtrFromString(query)
		if err != nil {
			return "", err
		}
		var list, record *uint16
		err = invoke(objectOf(kind).enumerate, &record, uintptr(unsafe.Pointer(q)), uintptr(unsafe.Pointer(&list)),
			uintptr(unsafe.Pointer(&record)))
		return taken(list), err
	})
}

// Query returns the document of an object.
func (r Raw) Query(ctx context.Context, kind, id string) (string, error) {
	return call(ctx, r.client, "query", kind+" "+id, func() (string, error) {
		var doc json.RawMessage
		err := objectOf(kind).read(hns.NormalID(id), &doc)
		return string(doc), err
	})
}

// Create makes an object and returns its document. Network is the parent of an endpoint and empty for others.
func (r Raw) Create(ctx context.Context, kind, network, settings string) (string, error) {
	return call(ctx, r.client, "create", kind, func() (string, error) {
		var parent handle
		if network != "" {
			var err error
			if parent, err = networks.opened(hns.NormalID(network)); err != nil {
				return "", err
			}
			defer networks.closed(parent)
		}
		var doc json.RawMessage
		err := objectOf(kind).made(parent, json.RawMessage(settings), &doc)
		return string(doc), err
	})
}

// Modify sends a modification of an object.
func (r Raw) Modify(ctx context.Context, kind, id, settings string) error {
	_, err := call(ctx, r.client, "modify", kind+" "+id, func() (struct{}, error) {
		var ignored json.RawMessage
		return struct{}{}, objectOf(kind).modified(hns.NormalID(id), json.RawMessage(settings), &ignored)
	})
	return err
}

// Delete removes an object. Unlike Client it returns HNS's error for an object that does not exist.
func (r Raw) Delete(ctx context.Context, kind, id string) error {
	_, err := call(ctx, r.client, "delete", kind+" "+id, func() (struct{}, error) {
		return struct{}{}, objectOf(kind).removed(hns.NormalID(id))
	})
	return err
}

// First makes a call of HNS's first interface and returns its whole answer.
func (r Raw) First(ctx context.Context, method, path, body string) (string, error) {
	return call(ctx, r.client, method, path, func() (string, error) {
		var at [3]*uint16
		for i, text := range []string{method, path, body} {
			var err error
			if at[i], err = windows.UTF16PtrFromString(text); err != nil {
				return "", err
			}
		}
		var response *uint16
		err := invoke(procHNSCall, nil, uintptr(unsafe.Pointer(at[0])), uintptr(unsafe.Pointer(at[1])),
			uintptr(unsafe.Pointer(at[2])), uintptr(unsafe.Pointer(&response)))
		return taken(response), err
	})
}

// Watch calls heard for each notification of HNS, with its type and its data as HNS wrote it, until stop is called.
// heard is called on a thread of HNS. Call Watch once per process: Windows limits the number of callbacks.
func (r Raw) Watch(ctx context.Context, heard func(kind uint32, data string)) (stop func(), err error) {
	callback := windows.NewCallback(func(kind, _, _, data uintptr) uintptr {
		text := ""
		if data != 0 {
			text = windows.UTF16PtrToString(*(**uint16)(unsafe.Pointer(&data)))
		}
		heard(uint32(kind), text)
		return 0
	})
	registered, err := call(ctx, r.client, "register for notifications", "", func() (handle, error) {
		var h handle
		err := invoke(procRegister, nil, callback, 0, uintptr(unsafe.Pointer(&h)))
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("notifications of HNS: %w", err)
	}
	return func() { _ = invoke(procUnregister, nil, uintptr(registered)) }, nil
}
