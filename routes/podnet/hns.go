package podnet

import (
	"context"
	"fmt"

	"porthole.dev/porthole/hns"
)

// HNS makes the pod network of a Windows host. Both parts are the same client, hns/hcn on Windows and hns/hnstest in tests;
// what only reads and what changes the host are kept apart.
type HNS struct {
	Reader reader
	Writer writer
}

// reader is what has to be known of HNS.
type reader interface {
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
	AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error
}

// Made is what Ensure did.
type Made struct {
	Changed  bool
	Replaced []Difference // why a network of our name was replaced; empty if none was
}

// Ensure makes the network and the host's endpoint in it, attached to the host's compartment. What is right is left alone. A
// network of that name that does not fit is replaced as MakePlan describes; if it is not, the error is a *DiffersError. If HNS
// does not answer all questions, nothing is changed.
func (h HNS) Ensure(ctx context.Context, wanted Network, replace bool) (Made, error) {
	seen, err := h.observe(ctx, wanted.HNS.Name)
	if err != nil {
		return Made{}, err
	}
	plan, err := MakePlan(wanted, seen, replace)
	if err != nil {
		return Made{}, err
	}

	made := Made{Replaced: plan.Replaces}
	for _, op := range plan.Ops {
		if err := h.apply(ctx, op, wanted, &seen); err != nil {
			return made, fmt.Errorf("%s %s: %w", op.Verb, op.Name, err)
		}
		made.Changed = true
	}
	return made, nil
}

func (h HNS) observe(ctx context.Context, name string) (Seen, error) {
	var seen Seen
	network, err := h.Reader.NetworkByName(ctx, name)
	switch {
	case hns.IsAbsent(err):
	case err != nil:
		return Seen{}, fmt.Errorf("looking up HNS network %s: %w", name, err)
	default:
		seen.Network = network
		if seen.Endpoints, err = h.Reader.Endpoints(ctx, network.ID); err != nil {
			return Seen{}, fmt.Errorf("listing endpoints of HNS network %s: %w", name, err)
		}
	}

	all, err := h.Reader.Namespaces(ctx)
	if err != nil {
		return Seen{}, fmt.Errorf("listing HNS namespaces: %w", err)
	}
	seen.Host, err = hostNamespace(all)
	return seen, err
}

func hostNamespace(all []hns.Namespace) (hns.Namespace, error) {
	for _, kind := range []string{"HostDefault", "Host"} {
		for _, n := range all {
			if n.Type == kind {
				return n, nil
			}
		}
	}
	return hns.Namespace{}, fmt.Errorf("HNS lists %d namespaces and none is the host's own", len(all))
}

// apply makes one change. It keeps in seen what was created, because later changes need its id.
func (h HNS) apply(ctx context.Context, op Op, wanted Network, seen *Seen) (err error) {
	switch op.Verb {
	case DeleteEndpoint:
		err = h.Writer.DeleteEndpoint(ctx, op.Endpoint)
	case DeleteNetwork:
		err = h.Writer.DeleteNetwork(ctx, seen.Network.ID)
	case CreateNetwork:
		seen.Network, err = h.Writer.CreateNetwork(ctx, wanted.HNS)
	case CreateHost:
		endpoint := wanted.Host
		endpoint.Network = seen.Network.ID
		endpoint, err = h.Writer.CreateEndpoint(ctx, endpoint)
		seen.Endpoints = []hns.Endpoint{endpoint}
	case AttachHost:
		id := op.Endpoint
		if id == "" {
			id = seen.Endpoints[0].ID
		}
		err = h.Writer.AddToNamespace(ctx, seen.Host.ID, id)
	}
	return err
}
