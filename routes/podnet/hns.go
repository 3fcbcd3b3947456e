package podnet

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/retry"
)

// HNS makes the pod network of a Windows host. Reader, Writer and Balancers are the same client, of hns/hcn on Windows
// and of hns/hnstest in tests. It remembers what it made, so use one for the life of a process; it is not safe for
// concurrent use.
type HNS struct {
	Reader    reader
	Writer    writer
	Balancers balancers
	Overlays  overlays // nil: this process makes no overlay networks
	Adapters  adapters
	// Before is called before a network is created or deleted; if it returns an error, HNS stays as it is. Nil:
	// nothing is.
	Before func(ctx context.Context) error

	made    hns.NetworkID // the network that this process created last
	madeFor hns.Network   // what was wanted then
	missing time.Time     // since when the host's endpoint is attached and has no adapter; zero: it has one
	renewed int           // how often the host's endpoint was created again because it had no adapter
}

// reader is what has to be known of HNS.
type reader interface {
	Version(ctx context.Context) (hns.Version, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	Endpoints(ctx context.Context, network hns.NetworkID) ([]hns.Endpoint, error)
	Namespaces(ctx context.Context) ([]hns.Namespace, error)
}

// writer is what is changed in HNS. Deleting what is gone is success.
type writer interface {
	CreateNetwork(ctx context.Context, network hns.Network) (hns.Network, error)
	DeleteNetwork(ctx context.Context, id hns.NetworkID) error
	CreateEndpoint(ctx context.Context, endpoint hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(ctx context.Context, id hns.EndpointID) error
	CreateHostNamespace(ctx context.Context) (hns.Namespace, error)
	AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error
	AttachToHost(ctx context.Context, endpoint hns.EndpointID) error
}

// balancers are the load balancers of the host. Those of a network are deleted before it is.
type balancers interface {
	LoadBalancers(ctx context.Context) ([]hns.LoadBalancer, error)
	DeleteLoadBalancer(ctx context.Context, id hns.LoadBalancerID) error
}

// overlays are changes of overlay networks.
type overlays interface {
	AddHostRoute(ctx context.Context, network hns.NetworkID) error
}

// adapters are the host's network adapters, which only Windows knows; routes/adapters implements it.
type adapters interface {
	// NameOf returns the name of the adapter that has the address, "" if none has.
	NameOf(addr netip.Addr) (string, error)
}

// adapterBackoff is how long the host's endpoint may be attached without an adapter before it is deleted and created
// again. Windows makes the adapter after the call that attaches has returned; after a reboot the endpoint may be
// listed without one for ever (kubernetes-sigs/sig-windows-tools#94, flannel-io/flannel#1112).
var adapterBackoff = retry.Backoff{First: 5 * time.Second, Max: time.Minute}

// Made is what Ensure did.
type Made struct {
	Changed  bool
	Replaced []Difference // why a network of our name was replaced; empty if none was
	// Differs is how the network that HNS reports differs from what this process asked for. It is used as it is.
	Differs []Difference
}

// Ensure makes the network and the host's endpoint in it, attached to the host's compartment, and checks that an
// adapter of the host has the endpoint's address. What is right is left alone. A network of that name that does not
// fit is replaced as MakePlan describes; if it is not, the error is a *DiffersError. If HNS does not answer all
// questions, nothing is changed.
func (h *HNS) Ensure(ctx context.Context, wanted Network, replace bool) (Made, error) {
	if err := h.checkFamilies(ctx, wanted); err != nil {
		return Made{}, err
	}
	seen, err := h.observe(ctx, wanted)
	if err != nil {
		return Made{}, err
	}
	plan, err := MakePlan(wanted, seen, replace)
	if err != nil {
		return Made{}, err
	}

	made := Made{Replaced: plan.Replaces, Differs: plan.Accepts}
	if h.Before != nil && (plan.has(CreateNetwork) || plan.has(DeleteNetwork)) {
		if err := h.Before(ctx); err != nil {
			return made, err
		}
	}
	for _, op := range plan.Ops {
		if err := h.apply(ctx, op, wanted, &seen); err != nil {
			return made, fmt.Errorf("%s %s: %w", op.Verb, op.Name, err)
		}
		made.Changed = true
	}
	if wanted.HNS.Type == hns.Overlay {
		return made, h.checkProvider(ctx, wanted)
	}
	return made, h.checkAdapter(wanted, plan)
}

// checkFamilies returns an error if the network has a range of IPv6, and this HNS makes no such networks.
func (h *HNS) checkFamilies(ctx context.Context, wanted Network) error {
	if len(wanted.HNS.Subnets) < 2 {
		return nil
	}
	version, err := h.Reader.Version(ctx)
	if err != nil {
		return fmt.Errorf("reading the version of HNS: %w", err)
	}
	if !version.HasIPv6() {
		return fmt.Errorf(
			"the pod ranges are %s and %s, and HNS of this Windows, version %d.%d, makes no networks with IPv6: they begin with build 19041; "+
				"let the node have a range of IPv4 alone", wanted.HNS.Subnets[0].Prefix, wanted.HNS.Subnets[1].Prefix,
			version.Major, version.Minor)
	}
	return nil
}

// checkProvider returns an error until HNS has bound an overlay network to the adapter that has the node's address.
// Only then its peers can be told where it is.
func (h *HNS) checkProvider(ctx context.Context, wanted Network) error {
	network, err := h.Reader.NetworkByName(ctx, wanted.HNS.Name)
	switch {
	case err != nil:
		return fmt.Errorf("looking up HNS network %s: %w", wanted.HNS.Name, err)
	case !network.Management.IsValid() || network.RouterMAC == "":
		return fmt.Errorf(
			"HNS has not bound overlay network %s to a network adapter yet: it reports no provider address (policies ProviderAddress "+
				"and DrMacAddress); it takes some seconds after the network was made", wanted.HNS.Name)
	case wanted.HNS.Management.IsValid() && network.Management != wanted.HNS.Management:
		return fmt.Errorf(
			"HNS has bound overlay network %s to the adapter with address %s, and this node's address is %s, to which other nodes send: "+
				"name the adapter of that address with --adapter, and let the network be made again with --replace-network",
			wanted.HNS.Name, network.Management, wanted.HNS.Management)
	}
	return nil
}

// observe reads what MakePlan has to know.
func (h *HNS) observe(ctx context.Context, wanted Network) (Seen, error) {
	name := wanted.HNS.Name
	var seen Seen
	network, err := h.Reader.NetworkByName(ctx, name)
	switch {
	case hns.IsAbsent(err):
	case err != nil:
		return Seen{}, fmt.Errorf("looking up HNS network %s: %w", name, err)
	default:
		seen.Network = network
		seen.Ours = network.ID == h.made && len(Diff(wanted.HNS, h.madeFor)) == 0
		if seen.Endpoints, err = h.Reader.Endpoints(ctx, network.ID); err != nil {
			return Seen{}, fmt.Errorf("listing endpoints of HNS network %s: %w", name, err)
		}
		if len(Diff(wanted.HNS, network)) > 0 {
			if seen.Balancers, err = h.Balancers.LoadBalancers(ctx); err != nil {
				return Seen{}, fmt.Errorf("listing load balancers: %w", err)
			}
		}
	}

	if wanted.Base.Name != "" {
		_, err := h.Reader.NetworkByName(ctx, wanted.Base.Name)
		if err != nil && !hns.IsAbsent(err) {
			return Seen{}, fmt.Errorf("looking up HNS network %s: %w", wanted.Base.Name, err)
		}
		seen.Base = err == nil
	}
	if wanted.Apart {
		return seen, nil
	}

	all, err := h.Reader.Namespaces(ctx)
	if err != nil {
		return Seen{}, fmt.Errorf("listing HNS namespaces: %w", err)
	}
	seen.Host = hostNamespace(all)

	if wanted.Host.Name == "" {
		return seen, nil
	}
	adapter, err := h.Adapters.NameOf(wanted.Host.Addrs[0])
	if err != nil {
		return Seen{}, err
	}
	seen.Adapter = adapter != ""
	seen.Overdue = !seen.Adapter && !h.missing.IsZero() && time.Since(h.missing) >= adapterBackoff.Wait(h.renewed+1)
	return seen, nil
}

// hostNamespace returns the namespace of the host's own compartment, the zero Namespace if HNS has none.
func hostNamespace(all []hns.Namespace) hns.Namespace {
	for _, kind := range []string{"HostDefault", "Host"} {
		for _, n := range all {
			if n.Type == kind {
				return n
			}
		}
	}
	return hns.Namespace{}
}

// checkAdapter returns an error while no adapter has the address of the host's endpoint, after plan was carried out.
// It keeps since when that is so.
func (h *HNS) checkAdapter(wanted Network, plan Plan) error {
	if wanted.Host.Name == "" {
		return nil
	}
	if plan.has(CreateHost) && !h.missing.IsZero() {
		h.missing = time.Time{}
		h.renewed++
	}
	addr := wanted.Host.Addrs[0]
	adapter, err := h.Adapters.NameOf(addr)
	if err != nil {
		return err
	}
	if adapter != "" {
		h.missing, h.renewed = time.Time{}, 0
		return nil
	}

	if h.missing.IsZero() {
		h.missing = time.Now()
	}
	return fmt.Errorf(
		"HNS endpoint %s is attached to the host, but no adapter has its address %s, which is the pods' gateway: "+
			"after %v without one it is deleted and created again", wanted.Host.Name, addr,
		adapterBackoff.Wait(h.renewed+1))
}

// apply makes one change. It keeps in seen what was created, because later changes need its id.
func (h *HNS) apply(ctx context.Context, op Op, wanted Network, seen *Seen) (err error) {
	switch op.Verb {
	case DeleteBalancer:
		err = h.Balancers.DeleteLoadBalancer(ctx, op.Balancer)
	case DeleteEndpoint:
		err = h.Writer.DeleteEndpoint(ctx, op.Endpoint)
	case DeleteNetwork:
		err = h.Writer.DeleteNetwork(ctx, seen.Network.ID)

	case CreateBase:
		_, err = h.Writer.CreateNetwork(ctx, wanted.Base)
	case CreateNetwork:
		network := wanted.HNS
		// the one has an Op of its own, the other is HNS's to say
		network.HostRoute, network.Management = false, netip.Addr{}
		seen.Network, err = h.Writer.CreateNetwork(ctx, network)
		h.made, h.madeFor = seen.Network.ID, wanted.HNS
	case AddHostRoute:
		err = h.Overlays.AddHostRoute(ctx, seen.Network.ID)
	case CreateHost:
		endpoint := wanted.Host
		endpoint.Network = seen.Network.ID
		endpoint, err = h.Writer.CreateEndpoint(ctx, endpoint)
		seen.Endpoints = []hns.Endpoint{endpoint}

	case CreateNamespace:
		seen.Host, err = h.Writer.CreateHostNamespace(ctx)
		if err != nil && hns.ClassOf(err) != hns.Unknown {
			err = nil // refused: the older interface attaches without a namespace
		}
	case AttachHost:
		id := op.Endpoint
		if id == "" {
			id = seen.Endpoints[0].ID
		}
		err = h.attach(ctx, seen.Host.ID, id)
	}
	return err
}

// attach puts the host's endpoint into the host's compartment. The error of HNS that the endpoint is attached already
// counts as success (flannel-io/flannel#1391). It may be attached elsewhere; checkAdapter finds that out.
func (h *HNS) attach(ctx context.Context, namespace hns.NamespaceID, endpoint hns.EndpointID) error {
	var err error
	if namespace == "" {
		err = h.Writer.AttachToHost(ctx, endpoint)
	} else {
		err = h.Writer.AddToNamespace(ctx, namespace, endpoint)
	}
	if hns.IsAttached(err) {
		return nil
	}
	return err
}
