package hcn

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
)

// policyListDoc is a load balancer, or a route, of HNS's first interface. Policies hold their type beside their fields.
type policyListDoc struct {
	ID         string
	References []string // "/endpoints/<id>"
	Policies   []elbDoc
}

type elbDoc struct {
	Type                       string
	SourceVIP                  string
	VIPs                       []string
	ILB, IsDSR                 bool
	Protocol                   json.RawMessage // a number, or its text
	InternalPort, ExternalPort uint16
}

// outlinesFrom gives the outlines of the load balancers among policy lists.
func outlinesFrom(lists []policyListDoc) map[hns.LoadBalancerID]uint64 {
	out := make(map[hns.LoadBalancerID]uint64, len(lists))
	for _, l := range lists {
		if lb, ok := policyListFrom(l); ok {
			out[lb.ID] = lb.Outline()
		}
	}
	return out
}

// policyListFrom returns the load balancer that a policy list describes. The second result is false for a route.
func policyListFrom(l policyListDoc) (hns.LoadBalancer, bool) {
	lb := hns.LoadBalancer{ID: hns.LoadBalancerID(hns.NormalID(l.ID))}
	for _, ref := range l.References {
		lb.Endpoints = append(lb.Endpoints, hns.EndpointID(hns.NormalID(ref[strings.LastIndex(ref, "/")+1:])))
	}

	for i, p := range l.Policies {
		if !strings.EqualFold(p.Type, "ELB") {
			return lb, false
		}
		port := hns.Port{External: p.ExternalPort, Internal: p.InternalPort}
		var protocol uint8
		if _, err := fmt.Sscan(strings.Trim(string(p.Protocol), `"`), &protocol); err == nil {
			port.Protocol = hns.Protocol(protocol)
		}
		if p.ILB {
			port.Flags = hns.PortILB
		}
		lb.Ports = append(lb.Ports, port)
		if i > 0 {
			continue // the others repeat what is not of the port
		}
		lb.DSR = p.IsDSR
		lb.SourceVIP, _ = netip.ParseAddr(p.SourceVIP)
		for _, v := range p.VIPs {
			if vip, err := netip.ParseAddr(v); err == nil {
				lb.VIPs = append(lb.VIPs, vip.Unmap())
			}
		}
	}
	return lb, true
}
