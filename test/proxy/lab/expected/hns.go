package expected

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// HNS is the part of its objects that matters here, as its documents have it.
type HNS struct {
	Endpoints     []endpoint
	LoadBalancers []LoadBalancer
}

type endpoint struct {
	ID               string
	Flags            uint32
	IpConfigurations []struct{ IpAddress string }
}

// flagRemote of an endpoint (hcsshim hcn.EndpointFlagsRemoteEndpoint).
const flagRemote = 1

func (e endpoint) addrs() (addrs []string) {
	for _, c := range e.IpConfigurations {
		addrs = append(addrs, c.IpAddress)
	}
	return addrs
}

// LoadBalancer of HNS. Protocol may be a number or its text.
type LoadBalancer struct {
	ID                   string
	HostComputeEndpoints []string
	FrontendVIPs         []string
	SourceVIP            string // on Overlay networks
	Flags                uint32
	PortMappings         []struct {
		Protocol                   json.RawMessage
		InternalPort, ExternalPort uint16
	}
}

// flagIPv6 of a load balancer (hcsshim hcn.LoadBalancerFlagsIPv6).
const flagIPv6 = 2

func (lb LoadBalancer) v6() bool { return lb.Flags&flagIPv6 != 0 }

func nodePortVIP(v6 bool) string {
	if v6 {
		return netip.IPv6Unspecified().String()
	}
	return ""
}

// Frontends are "VIP/protocol/port", without a VIP for node ports ("::" in IPv6).
func (lb LoadBalancer) Frontends() (keys []string) {
	vips := lb.FrontendVIPs
	if len(vips) == 0 {
		vips = []string{nodePortVIP(lb.v6())}
	}
	for _, vip := range vips {
		for _, p := range lb.PortMappings {
			keys = append(keys, fmt.Sprintf("%s/%s/%d", vip, strings.Trim(string(p.Protocol), `"`), p.ExternalPort))
		}
	}
	return keys
}

// view is what is found about HNS's objects while they are looked through.
type view struct {
	foreign map[string]bool     // objects of others that were not found yet, by id
	addrs   map[string][]string // of endpoints, by id
	known   map[string]bool     // the same addresses, and the host's
	used    map[string]bool     // endpoints of load balancers
	diff    []string
}

func newView(h Host, endpoints []endpoint, foreign []string) *view {
	v := &view{foreign: map[string]bool{}, addrs: map[string][]string{}, known: map[string]bool{h.Addr.String(): true},
		used: map[string]bool{}}
	for _, id := range foreign {
		v.foreign[id] = true
	}
	for _, e := range endpoints {
		v.addrs[e.ID] = e.addrs()
		for _, addr := range e.addrs() {
			v.known[addr] = true
		}
	}
	return v
}

func (v *view) note(format string, args ...any) {
	v.diff = append(v.diff, fmt.Sprintf(format, args...))
}

// others reports whether an object is one of others.
func (v *view) others(id string) bool {
	if !v.foreign[id] {
		return false
	}
	delete(v.foreign, id)
	return true
}

// frontends returns the backends that HNS's load balancers lead to, by frontend. It notes as wrong what no proxy may
// leave in HNS: two load balancers of one frontend, and load balancers that name an endpoint which is gone. The
// endpoints that it meets are marked as used; the method endpoints looks for others.
func (v *view) frontends(list []LoadBalancer) frontends {
	have := frontends{}
	for _, lb := range list {
		for _, id := range lb.HostComputeEndpoints {
			v.used[id] = true
		}
		if v.others(lb.ID) {
			continue
		}
		var backends []string
		for _, id := range lb.HostComputeEndpoints {
			i := slices.IndexFunc(v.addrs[id], func(addr string) bool { return strings.Contains(addr, ":") == lb.v6() })
			if i < 0 {
				backends = append(backends, "dead endpoint "+id)
				continue
			}
			backends = append(backends, v.addrs[id][i])
		}
		slices.Sort(backends)

		for _, key := range lb.Frontends() {
			if _, double := have[key]; double {
				v.note("%s has two load balancers", key)
			}
			have[key] = fmt.Sprintf("%s port %d", strings.Join(backends, ","), lb.PortMappings[0].InternalPort)
		}
		if len(lb.PortMappings) == 0 {
			v.note("load balancer %s has no port", lb.ID)
		}
		if lb.SourceVIP != "" && !v.known[lb.SourceVIP] {
			v.note("load balancer %s (%s) sends from %s, which neither an endpoint nor the host has",
				lb.ID, strings.Join(lb.Frontends(), ", "), lb.SourceVIP)
		}
	}
	return have
}

// endpoints notes remote endpoints that exist twice or without a use. Call it after frontends.
func (v *view) endpoints(list []endpoint, want frontends) {
	vips := map[string]bool{} // an Overlay network needs an endpoint per cluster address
	for key := range want {
		vip, _, _ := strings.Cut(key, "/")
		vips[vip] = true
	}

	seen := map[string]bool{}
	for _, e := range list {
		if v.others(e.ID) || e.Flags&flagRemote == 0 {
			continue
		}
		addr := strings.Join(e.addrs(), " ") // a remote endpoint has one
		if seen[addr] {
			v.note("remote endpoint %s is there twice", addr)
		}
		seen[addr] = true
		if !v.used[e.ID] && !vips[addr] {
			v.note("remote endpoint %s is there for nothing", addr)
		}
	}
}
