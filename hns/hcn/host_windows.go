package hcn

import (
	"context"
	"encoding/json"

	shim "github.com/Microsoft/hcsshim/hcn"

	"porthole.dev/porthole/hns"
)

// Host is a Client with the calls about the host's own compartment.
type Host struct{ *Client }

// CreateHostNamespace makes the namespace of the host's own compartment, of type HostDefault. The error is of class
// hns.Exists if there is one.
func (h Host) CreateHostNamespace(ctx context.Context) (hns.Namespace, error) {
	return call(ctx, h.Client, "create host namespace", "", func() (hns.Namespace, error) {
		var doc namespaceDoc
		err := namespaces.made(0, shim.NewNamespace(shim.NamespaceTypeHostDefault), &doc)
		return namespaceFrom(doc), err
	})
}

// AttachToHost attaches an endpoint to the host's own compartment by HNS's older interface, which needs no namespace.
// If the endpoint is attached already, hns.IsAttached returns true for the error.
func (h Host) AttachToHost(ctx context.Context, endpoint hns.EndpointID) error {
	_, err := call(ctx, h.Client, "attach endpoint", string(endpoint), func() (struct{}, error) {
		_, err := asked[json.RawMessage]("POST", "/endpoints/"+h.written.endpoints.of(string(endpoint))+"/attach",
			`{"CompartmentId":1,"SystemType":"Host"}`)
		return struct{}{}, err
	})
	return err
}
