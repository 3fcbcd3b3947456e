// Package attach carries out the calls of the Container Network Interface for a Windows plugin: one HNS endpoint per
// sandbox, in the sandbox's namespace, at an address of the node's range. What differs between plugins is a Kind.
//
//	ADD     find the network → find or make the endpoint → put it into the namespace
//	DEL     take it out → delete it → release the address, in this order: an address is free only when nobody answers for it
//	CHECK   compare endpoint and address with what ADD returned
//	GC      DEL for every sandbox that the runtime does not know
//	STATUS  fail if ADD could not work
//
// Every call may be repeated. A look-up that fails ends the call: it never means that something is not there. An ADD
// that fails takes back what it made, unless HNS does not say whether it has it; then DEL, which runtimes call after a
// failed ADD, does.
package attach

import (
	"context"
	"fmt"
	"net/netip"
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
	Endpoint(Pod) (hns.Endpoint, error)
}

// Pod is what a Kind knows of the pod that it makes an endpoint for.
type Pod struct {
	Config  *contract.Config
	Network hns.Network
	// Addresses are those that the pod was given, at least one; the first is that of the result of old versions of CNI.
	Addresses []ipam.Address
	// RouteGateway is the gateway that ipam.routes names; zero if it names none.
	RouteGateway netip.Addr
	// Namespace is the pod's namespace in Kubernetes; "" if the runtime does not name it.
	Namespace string
	// HNS is its version; zero if nothing in the configuration depends on it.
	HNS hns.Version
}

// Plugin carries out the calls for one kind. Reader, Writer and Rules are the same client: on Windows hcn.Client and
// hcn.Rules, in tests those of hns/hnstest.
type Plugin struct {
	Kind   Kind
	Reader reader
	Writer writer
	Rules  rules
	// Fields of the configuration that the kind reads from contract.Config.Raw, in lower case. They are not reported
	// as unknown.
	Fields []string
	// WithoutNamespace accepts the calls of runtimes from before HCN namespaces, as wincni did: CNI_NETNS is "none"
	// for the sandbox, and "container:ID" for the other containers of the sandbox ID.
	WithoutNamespace bool
}

// reader is what has to be known of HNS.
type reader interface {
	Version(context.Context) (hns.Version, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	Endpoints(context.Context, hns.NetworkID) ([]hns.Endpoint, error)
	EndpointByName(ctx context.Context, name string) (hns.Endpoint, error)
	Namespace(context.Context, hns.NamespaceID) (hns.Namespace, error)
}

// lister is implemented by readers that can list all networks, hcn.Client for one. The names are for an error.
type lister interface {
	Networks(context.Context) ([]hns.Network, error)
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
	Namespace string // GUID; may be empty for Del; see also Plugin.WithoutNamespace
	Interface string
	Args      string // CNI_ARGS
	Config    *contract.Config
}

// endpointName is the same for every call about one sandbox, which makes ADD and DEL repeatable.
func endpointName(container, network string) string { return container + "_" + network }

// place is where an endpoint belongs.
type place struct {
	sandbox   string          // id of the sandbox
	namespace hns.NamespaceID // empty: the runtime attaches it by itself
	joins     bool            // the call is for another container of the sandbox: nothing is made or deleted
}

// Values of CNI_NETNS before HCN namespaces, as Docker's kubelet gave them to wincni.
const (
	noNamespace   = "none"
	inContainerOf = "container:"
)

// place returns where the endpoint of a call belongs. If needed is true, a CNI_NETNS that is not a GUID is an error.
func (p *Plugin) place(c Call, needed bool) (place, error) {
	if p.WithoutNamespace {
		if c.Namespace == noNamespace {
			return place{sandbox: c.Container}, nil
		}
		if sandbox, ok := strings.CutPrefix(c.Namespace, inContainerOf); ok {
			if sandbox == "" {
				return place{}, fmt.Errorf("network namespace %q names no container", c.Namespace)
			}
			return place{sandbox: sandbox, joins: true}, nil
		}
	}

	id := hns.NormalID(c.Namespace)
	if len(id) != 36 || strings.Count(id, "-") != 4 {
		if !needed {
			return place{sandbox: c.Container}, nil
		}
		return place{}, fmt.Errorf(
			"network namespace %q is not a GUID: this plugin serves containerd, which names HCN namespaces",
			c.Namespace)
	}
	return place{sandbox: c.Container, namespace: hns.NamespaceID(id)}, nil
}

// argument returns the value of a key of CNI_ARGS, "" if it is not there.
func (c Call) argument(key string) string {
	for _, pair := range strings.Split(c.Args, ";") {
		if k, v, ok := strings.Cut(pair, "="); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
