// Package attach carries out the calls of the Container Network Interface for a Windows plugin: one HNS endpoint per sandbox, in
// the sandbox's namespace, at an address of the node's range. What differs between plugins is a Kind.
//
//	ADD     find the network → find or make the endpoint → put it into the namespace
//	DEL     take it out → delete it → release the address, in this order: an address is free only when nobody answers for it
//	CHECK   compare endpoint and address with what ADD returned
//	GC      DEL for every sandbox that the runtime does not know
//	STATUS  fail if ADD could not work
//
// Every call may be repeated. A look-up that fails ends the call: it never means that something is not there. An ADD that fails
// takes back what it made, unless HNS does not say whether it has it; then DEL, which runtimes call after a failed ADD, does.
package attach

import (
	"context"
	"fmt"
	"strings"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Kind is a kind of network that pods are attached to. Its methods are pure.
type Kind interface {
	// Accepts returns an error if the plugin cannot serve the network.
	Accepts(network hns.Network) error
	// Endpoint returns what a pod's endpoint has to be. The engine gives it its name and network.
	Endpoint(c *contract.Config, network hns.Network, at ipam.Address, version hns.Version) (hns.Endpoint, error)
}

// Plugin carries out the calls for one kind. Reader and Writer are the same client, hns/hcn on Windows and hns/hnstest in tests.
type Plugin struct {
	Kind   Kind
	Reader reader
	Writer writer
}

// reader is what has to be known of HNS.
type reader interface {
	Version(context.Context) (hns.Version, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	Endpoints(context.Context, hns.NetworkID) ([]hns.Endpoint, error)
	EndpointByName(ctx context.Context, name string) (hns.Endpoint, error)
	Namespace(context.Context, hns.NamespaceID) (hns.Namespace, error)
}

// writer is what is changed in HNS. Deleting what is gone is success.
type writer interface {
	CreateEndpoint(context.Context, hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(context.Context, hns.EndpointID) error
	AddToNamespace(context.Context, hns.NamespaceID, hns.EndpointID) error
	RemoveFromNamespace(context.Context, hns.NamespaceID, hns.EndpointID) error
}

// Call is what the runtime gives with every call.
type Call struct {
	Container string
	Namespace string // GUID; may be empty for Del
	Interface string
	Config    *contract.Config
}

// endpointName is the same for every call about one sandbox, which makes ADD and DEL repeatable.
func endpointName(container, network string) string { return container + "_" + network }

func (c Call) endpoint() string { return endpointName(c.Container, c.Config.Name) }

func (c Call) namespace() (hns.NamespaceID, error) {
	id := hns.NormalID(c.Namespace)
	if len(id) != 36 || strings.Count(id, "-") != 4 {
		return "", fmt.Errorf("network namespace %q is not a GUID: this plugin serves containerd, which names HCN namespaces", c.Namespace)
	}
	return hns.NamespaceID(id), nil
}
