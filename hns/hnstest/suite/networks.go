package suite

import (
	"net/netip"
	"slices"
	"testing"

	"porthole.dev/porthole/hns"
)

// networkIsFound: a network is found by its name as soon as it is made, with type and subnets, and not once it is
// deleted.
func networkIsFound(t *testing.T, s *subject) {
	if _, err := s.NetworkByName(s.ctx, networkName); !hns.IsAbsent(err) {
		t.Fatalf("a network that was not made: %v", err)
	}
	ids, err := s.NetworkIDs(s.ctx, networkName)
	if err != nil || len(ids) != 0 {
		t.Errorf("ids of a name that nobody has: %v, %v", ids, err)
	}

	made := s.network()
	found, err := s.NetworkByName(s.ctx, networkName)
	if err != nil || found.ID != made.ID || found.Type != hns.L2Bridge || found.Name != networkName {
		t.Errorf("found %+v, %v", found, err)
	}
	if len(found.Subnets) != 1 || found.Subnets[0] != subnet {
		t.Errorf("subnets %v, want %v", found.Subnets, subnet)
	}
	ids, err = s.NetworkIDs(s.ctx, networkName)
	listed(s, "ids", ids, err, made.ID)
	all, err := s.Host.Networks.Networks(s.ctx)
	if err != nil || !slices.ContainsFunc(all,
		func(n hns.Network) bool { return n.ID == made.ID && n.Name == networkName }) {
		t.Errorf("networks %v, %v", all, err)
	}

	for _, what := range []string{"deleting", "deleting again"} {
		s.good(what, s.DeleteNetwork(s.ctx, made.ID))
	}
	_, err = s.NetworkByName(s.ctx, networkName)
	s.class("after the deletion", err, hns.Absent)
}

// networkType: a type that no HNS knows is Invalid, and nothing is made.
func networkType(t *testing.T, s *subject) {
	made, err := s.CreateNetwork(s.ctx,
		hns.Network{Name: networkName, Type: "NoSuchType", Subnets: []hns.Subnet{subnet}})
	if err == nil {
		s.good("deleting", s.DeleteNetwork(s.ctx, made.ID))
	}
	s.class("a type that no HNS knows", err, hns.Invalid)
	if _, err := s.NetworkByName(s.ctx, networkName); !hns.IsAbsent(err) {
		t.Errorf("it was made nevertheless: %v", err)
	}
}

// networkGoes: endpoints that are in no namespace go with their network.
func networkGoes(_ *testing.T, s *subject) {
	network := s.network()
	endpoint := s.remote(network.ID, first, "10.78.0.1")
	s.good("deleting the network", s.DeleteNetwork(s.ctx, network.ID))
	_, err := s.Endpoint(s.ctx, endpoint.ID)
	s.class("its endpoint", err, hns.Absent)
}

// networkInUse: a network with an endpoint in a namespace is not deleted, and nothing follows from the answer but that.
func networkInUse(_ *testing.T, s *subject) {
	network := s.network()
	host := s.hostNamespace()
	endpoint := s.local(network.ID, "10.77.0.2")
	s.good("adding", s.AddToNamespace(s.ctx, host.ID, endpoint.ID))
	s.class("deleting the network", s.DeleteNetwork(s.ctx, network.ID), hns.Unknown)
	_, err := s.Endpoint(s.ctx, endpoint.ID)
	s.good("reading the endpoint", err)
	s.good("removing", s.RemoveFromNamespace(s.ctx, host.ID, endpoint.ID))
}

// local makes a local endpoint.
func (s *subject) local(network hns.NetworkID, addr string) hns.Endpoint {
	s.t.Helper()
	return s.endpoint(hns.Endpoint{Name: "porthole-suite-local", Network: network,
		Addrs: []netip.Addr{netip.MustParseAddr(addr)}})
}

// hostNamespace is the host's own namespace.
func (s *subject) hostNamespace() hns.Namespace {
	s.t.Helper()
	all, err := s.Host.Namespaces.Namespaces(s.ctx)
	i := slices.IndexFunc(all, func(n hns.Namespace) bool { return n.Type == "HostDefault" })
	if err != nil || i < 0 {
		s.t.Fatalf("no namespace of type HostDefault in %v: %v", all, err)
	}
	return all[i]
}

// hostNamespace: the host's own namespace is there from the start; an endpoint can be put into it and taken out again,
// each as often as one likes.
func hostNamespace(t *testing.T, s *subject) {
	host := s.hostNamespace()
	endpoint := s.local(s.network().ID, "10.77.0.2")
	if endpoint.Namespace != "" {
		t.Errorf("a new endpoint is in namespace %s", endpoint.Namespace)
	}
	for _, what := range []string{"adding", "adding again"} {
		s.good(what, s.AddToNamespace(s.ctx, host.ID, endpoint.ID))
	}
	now, err := s.Namespace(s.ctx, host.ID)
	listed(s, "endpoints of the namespace", now.Endpoints, err, endpoint.ID)
	read, err := s.Endpoint(s.ctx, endpoint.ID)
	if err != nil || read.Namespace != host.ID {
		t.Errorf("it is in namespace %q, want %s: %v", read.Namespace, host.ID, err)
	}

	for _, what := range []string{"removing", "removing again"} {
		s.good(what, s.RemoveFromNamespace(s.ctx, host.ID, endpoint.ID))
	}
	now, err = s.Namespace(s.ctx, host.ID)
	unlisted(s, "endpoints afterwards", now.Endpoints, err, endpoint.ID)

	s.good("adding for its deletion", s.AddToNamespace(s.ctx, host.ID, endpoint.ID))
	s.good("deleting it while it is in", s.DeleteEndpoint(s.ctx, endpoint.ID))
	now, err = s.Namespace(s.ctx, host.ID)
	unlisted(s, "endpoints after its deletion", now.Endpoints, err, endpoint.ID)
}

// remoteInNamespace: neither a remote endpoint nor what does not exist can be in a namespace.
func remoteInNamespace(_ *testing.T, s *subject) {
	host, network := s.hostNamespace(), s.network()
	remote := s.remote(network.ID, first, "10.78.0.1")
	s.class("adding a remote endpoint", s.AddToNamespace(s.ctx, host.ID, remote.ID), hns.Unsupported)
	s.class("adding an endpoint that does not exist", s.AddToNamespace(s.ctx, host.ID, hns.EndpointID(unknown)),
		hns.Absent)
	s.class("adding to a namespace that does not exist", s.AddToNamespace(s.ctx, hns.NamespaceID(unknown), remote.ID),
		hns.Absent)
	_, err := s.Namespace(s.ctx, hns.NamespaceID(unknown))
	s.class("a namespace that does not exist", err, hns.Absent)
}
