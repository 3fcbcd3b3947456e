package suite

import (
	"net/netip"
	"testing"

	"porthole.dev/porthole/hns"
)

// remoteEndpoint: it keeps the id that it is given, is found by id, name and network, and is deleted as often as one
// likes.
func remoteEndpoint(t *testing.T, s *subject) {
	network := s.network().ID
	made := s.remote(network, first, "10.78.0.1")
	addr := netip.MustParseAddr("10.78.0.1")
	if made.ID != first || !made.Has(addr) || !made.Remote {
		t.Errorf("made %+v", made)
	}

	read, err := s.Endpoint(s.ctx, first)
	if err != nil || !read.Has(addr) || !read.Remote || read.Network != network || read.Namespace != "" ||
		read.Name != made.Name {
		t.Errorf("read %+v, %v", read, err)
	}
	named, err := s.EndpointByName(s.ctx, made.Name)
	if err != nil || named.ID != first {
		t.Errorf("by its name %+v, %v", named, err)
	}
	ids, err := s.EndpointIDs(s.ctx, network)
	listed(s, "endpoints of the network", ids, err, made.ID)
	all, err := s.Host.Endpoints.Endpoints(s.ctx, network)
	if err != nil || len(all) != 1 || all[0].ID != first || !all[0].Has(addr) {
		t.Errorf("endpoints %+v, %v", all, err)
	}

	_, err = s.CreateEndpoint(s.ctx,
		hns.Endpoint{ID: first, Network: network, Remote: true, Addrs: []netip.Addr{netip.MustParseAddr("10.78.0.9")}})
	s.class("the same id again", err, hns.Exists)
	for _, what := range []string{"deleting", "deleting again"} {
		s.good(what, s.DeleteEndpoint(s.ctx, first))
	}
	_, err = s.Endpoint(s.ctx, first)
	s.class("after the deletion", err, hns.Absent)
	_, err = s.EndpointByName(s.ctx, made.Name)
	s.class("its name after the deletion", err, hns.Absent)
}

// localAddresses: of the addresses of a network, each has one local endpoint, and there is none outside of it.
func localAddresses(t *testing.T, s *subject) {
	network := s.network().ID
	made := s.local(network, "10.77.0.9")
	if made.ID == "" || made.Remote || !made.Has(netip.MustParseAddr("10.77.0.9")) {
		t.Errorf("made %+v", made)
	}
	for what, addr := range map[string]string{"a taken address": "10.77.0.9", "an address of no subnet": "10.78.0.9",
		"the gateway's address": "10.77.0.1"} {
		again, err := s.CreateEndpoint(s.ctx,
			hns.Endpoint{Name: "porthole-suite-refused", Network: network,
				Addrs: []netip.Addr{netip.MustParseAddr(addr)}})
		if err == nil {
			s.good("deleting "+what, s.DeleteEndpoint(s.ctx, again.ID))
		}
		s.class(what, err, hns.Invalid)
	}
}

// endpointOfNoNetwork: what does not exist is Absent, and its deletion a success.
func endpointOfNoNetwork(_ *testing.T, s *subject) {
	_, err := s.CreateEndpoint(s.ctx,
		hns.Endpoint{ID: first, Network: hns.NetworkID(unknown), Remote: true,
			Addrs: []netip.Addr{netip.MustParseAddr("10.78.0.1")}})
	s.class("a network that does not exist", err, hns.Absent)
	_, err = s.Endpoint(s.ctx, hns.EndpointID(unknown))
	s.class("an endpoint that does not exist", err, hns.Absent)
	_, err = s.EndpointByName(s.ctx, "porthole-suite-nobody")
	s.class("a name that nobody has", err, hns.Absent)
	s.good("deleting what does not exist", s.DeleteEndpoint(s.ctx, hns.EndpointID(unknown)))
}
