package suite

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"porthole.dev/porthole/hns"
)

// Ids of load balancers.
const (
	firstBalancer  = "706f7274-6c62-8001-8001-000000000001"
	secondBalancer = "706f7274-6c62-8001-8001-000000000002"
)

// wanted is a load balancer of the suite.
func (s *subject) wanted(backends ...hns.EndpointID) hns.LoadBalancer {
	return hns.LoadBalancer{ID: firstBalancer, Endpoints: backends, DSR: s.Version.HasDSR(), VIPs: []netip.Addr{vip},
		Ports: []hns.Port{{Protocol: hns.TCP, External: 80, Internal: 8080}}}
}

// make makes a load balancer, which is deleted at the end.
func (s *subject) make(lb hns.LoadBalancer) hns.LoadBalancer {
	s.t.Helper()
	made, err := s.CreateLoadBalancer(s.ctx, lb)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.DeleteLoadBalancer(context.Background(), made.ID); err != nil {
			s.t.Error(err)
		}
	})
	return made
}

// balancer: it keeps the id that it is given, is read back as it was made, and is deleted as often as one likes.
func balancer(t *testing.T, s *subject) {
	backend := s.remote(s.network().ID, first, "10.78.0.1")
	lb := s.wanted(backend.ID)
	if made := s.make(lb); made.ID != lb.ID {
		t.Errorf("made %+v", made)
	}

	read, err := s.LoadBalancer(s.ctx, lb.ID)
	if err != nil || read.DSR != lb.DSR || !slices.Equal(read.VIPs, lb.VIPs) || !slices.Equal(read.Ports, lb.Ports) ||
		!slices.Equal(read.Endpoints, lb.Endpoints) {
		t.Errorf("read %+v, %v", read, err)
	}
	ids, err := s.LoadBalancerIDs(s.ctx)
	listed(s, "ids", ids, err, lb.ID)
	outlines, err := s.LoadBalancerOutlines(s.ctx)
	if err != nil || outlines[lb.ID] != lb.Outline() {
		t.Errorf("outline %x, want %x: %v", outlines[lb.ID], lb.Outline(), err)
	}

	for _, what := range []string{"deleting", "deleting again"} {
		s.good(what, s.DeleteLoadBalancer(s.ctx, lb.ID))
	}
	_, err = s.LoadBalancer(s.ctx, lb.ID)
	s.class("after the deletion", err, hns.Absent)
	ids, err = s.LoadBalancerIDs(s.ctx)
	unlisted(s, "ids afterwards", ids, err, lb.ID)
}

// frontend: a frontend belongs to the load balancer that had it first; another port or protocol is another frontend.
func frontend(_ *testing.T, s *subject) {
	backend := s.remote(s.network().ID, first, "10.78.0.1")
	lb := s.wanted(backend.ID)
	s.make(lb)
	_, err := s.CreateLoadBalancer(s.ctx, lb)
	s.class("the same again", err, hns.Exists)

	other := lb
	other.ID = secondBalancer
	_, err = s.CreateLoadBalancer(s.ctx, other)
	s.class("its frontend under another id", err, hns.Exists)
	other.Ports = []hns.Port{{Protocol: hns.UDP, External: 80, Internal: 8080}}
	s.make(other)

	s.good("deleting the first", s.DeleteLoadBalancer(s.ctx, lb.ID))
	s.make(lb)
}

// backends: a load balancer has one at least, and none that does not exist.
func backends(_ *testing.T, s *subject) {
	s.network()
	_, err := s.CreateLoadBalancer(s.ctx, s.wanted())
	s.class("no backend", err, hns.Invalid)
	_, err = s.CreateLoadBalancer(s.ctx, s.wanted(hns.EndpointID(unknown)))
	s.class("a backend that does not exist", err, hns.Absent)
	_, err = s.LoadBalancer(s.ctx, firstBalancer)
	s.class("it was not made", err, hns.Absent)
}

// modify: from 15.5 on a load balancer gets other backends and stays itself; before, no call changes it, whatever the
// answer.
func modify(t *testing.T, s *subject) {
	network := s.network().ID
	one := s.remote(network, first, "10.78.0.1")
	two := s.remote(network, second, "10.78.0.2")
	lb := s.wanted(one.ID)
	s.make(lb)

	changed := lb
	changed.Endpoints = []hns.EndpointID{one.ID, two.ID}
	now, err := s.ModifyLoadBalancer(s.ctx, changed)
	want := lb
	if s.Version.CanModifyLoadBalancer() {
		want = changed
		if err != nil || !slices.Equal(now.Endpoints, want.Endpoints) {
			t.Errorf("modified %+v, %v", now, err)
		}
	} else if err == nil && slices.Equal(now.Endpoints, changed.Endpoints) {
		t.Errorf("HNS %s says that it changed it", s.Version)
	}

	read, err := s.LoadBalancer(s.ctx, lb.ID)
	if err != nil || !slices.Equal(read.Endpoints, want.Endpoints) {
		t.Errorf("it has backends %v, want %v: %v", read.Endpoints, want.Endpoints, err)
	}
	changed.ID = secondBalancer
	if _, err := s.ModifyLoadBalancer(s.ctx, changed); err == nil || hns.ClassOf(err) == hns.Exists {
		t.Errorf("modifying what does not exist: %v", err)
	}
}
