package proxylab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Foreign names HNS objects that are not the proxy's. They must still exist, and Diff ignores them otherwise.
type Foreign struct {
	LoadBalancers, Endpoints []string // ids
}

// frontends are what services imply, or what HNS has: backends by "VIP/protocol/port", sorted and joined. The VIP of a
// node port is empty, in IPv6 it is "::".
type frontends map[string]string

// Settled waits until HNS has exactly what the services imply: see Diff. It does not wait for a program that has ended.
func (h *Host) Settled(ctx context.Context, within time.Duration, f Foreign) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.mu.Lock()
	if n := len(h.procs); n > 0 {
		last := h.procs[n-1]
		go func() {
			select {
			case <-last.Done():
				_, err := last.Ended()
				cancel(fmt.Errorf("the proxy has ended: %v", err))
			case <-ctx.Done():
			}
		}()
	}
	h.mu.Unlock()

	err := wait.For(ctx, within, "HNS to be as the services want it", func(ctx context.Context) error {
		diff, err := h.Diff(ctx, f)
		if err != nil {
			return err
		}
		if len(diff) > 0 {
			return errors.New(strings.Join(diff[:min(8, len(diff))], "; "))
		}
		return nil
	})

	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}

// Diff lists how HNS differs from what the services and slices that the host sees imply, by the rules of Kubernetes
// and none of a proxy's: each frontend has one load balancer with the right backends; its source address is that of
// an endpoint or of the host; nothing else has a load balancer; and no remote endpoint is there twice or for nothing.
// Load balancers for clients in the cluster may be there besides, with all backends: see inCluster. Frontends whose
// backends have different ports are compared by address.
func (h *Host) Diff(ctx context.Context, f Foreign) ([]string, error) {
	d, err := h.HNS.Dump(ctx)
	if err != nil {
		return nil, err
	}
	want, optional, err := expectation{h}.wanted(ctx)
	if err != nil {
		return nil, err
	}

	known := map[string]bool{h.Addr.String(): true}
	v := &view{f: f, addrs: map[string][]string{}, known: known, used: map[string]bool{}}
	for _, e := range d.Endpoints {
		addrs := endpointAddrs(e)
		v.addrs[text(e, "ID")] = addrs
		for _, addr := range addrs {
			v.known[addr] = true
		}
	}

	have := v.frontends(d.LoadBalancers)
	for key, backends := range want {
		switch got, ok := have[key]; {
		case !ok:
			v.note("%s is missing (%s)", key, backends)
		case got != backends:
			v.note("%s has %s instead of %s", key, got, backends)
		}
	}

	for key, backends := range have {
		if _, ok := want[key]; !ok && optional[key] != backends {
			v.note("%s (%s) is there and nobody wants it", key, backends)
		}
	}

	v.endpoints(d.Endpoints, want)
	slices.Sort(v.diff)
	return v.diff, nil
}

// LoadBalancers returns the ids of HNS's load balancers by frontend: "VIP/protocol/port", without a VIP for node ports
// ("::" in IPv6).
func (h *Host) LoadBalancers(ctx context.Context) (map[string]string, error) {
	d, err := h.HNS.Dump(ctx)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, doc := range d.LoadBalancers {
		lb, err := readLB(doc)
		if err != nil {
			return nil, err
		}
		for _, key := range lb.keys() {
			ids[key] = lb.ID
		}
	}
	return ids, nil
}

// LoadBalancerOrder returns the frontends of HNS's load balancers, oldest first.
func (h *Host) LoadBalancerOrder(ctx context.Context) ([]string, error) {
	d, err := h.HNS.Dump(ctx)
	if err != nil {
		return nil, err
	}
	var order []string
	for _, doc := range d.LoadBalancers {
		lb, err := readLB(doc)
		if err != nil {
			return nil, err
		}
		order = append(order, lb.keys()...)
	}
	return order, nil
}

type view struct {
	f     Foreign
	addrs map[string][]string // of endpoints, by id
	known map[string]bool     // the same addresses, and the host's
	used  map[string]bool     // endpoints of load balancers
	diff  []string
}

func (v *view) note(format string, args ...any) {
	v.diff = append(v.diff, fmt.Sprintf(format, args...))
}

// lbDoc is the part of a load balancer's document that matters here. Protocol may be a number or its text.
type lbDoc struct {
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

func nodePortVIP(v6 bool) string {
	if v6 {
		return netip.IPv6Unspecified().String()
	}
	return ""
}

func readLB(doc hnsd.Doc) (lb lbDoc, err error) {
	data, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(data, &lb)
	}
	return lb, err
}

func (lb lbDoc) keys() []string {
	vips := lb.FrontendVIPs
	if len(vips) == 0 {
		vips = []string{nodePortVIP(lb.Flags&flagIPv6 != 0)}
	}
	var keys []string
	for _, vip := range vips {
		for _, p := range lb.PortMappings {
			keys = append(keys, fmt.Sprintf("%s/%s/%d", vip, strings.Trim(string(p.Protocol), `"`), p.ExternalPort))
		}
	}
	return keys
}

// frontends returns which backends HNS has for each frontend, and notes what no proxy should leave: two load balancers
// for a frontend, backends without an endpoint, and load balancers of others that are gone. It also notes which
// endpoints are in use, for endpoints.
func (v *view) frontends(docs []hnsd.Doc) frontends {
	have := frontends{}
	foreign := map[string]bool{}
	for _, id := range v.f.LoadBalancers {
		foreign[id] = true
	}

	for _, doc := range docs {
		lb, err := readLB(doc)
		if err != nil {
			v.note("load balancer %v: %v", doc, err)
			continue
		}
		for _, id := range lb.HostComputeEndpoints {
			v.used[id] = true
		}
		if foreign[lb.ID] {
			delete(foreign, lb.ID)
			continue
		}
		var backends []string
		for _, id := range lb.HostComputeEndpoints {
			i := slices.IndexFunc(v.addrs[id],
				func(addr string) bool { return strings.Contains(addr, ":") == (lb.Flags&flagIPv6 != 0) })
			if i < 0 {
				backends = append(backends, "dead endpoint "+id)
				continue
			}
			backends = append(backends, v.addrs[id][i])
		}
		slices.Sort(backends)
		for _, key := range lb.keys() {
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
				lb.ID, strings.Join(lb.keys(), ", "), lb.SourceVIP)
		}
	}

	for id := range foreign {
		v.note("foreign load balancer %s is gone", id)
	}
	return have
}

func endpointAddrs(e hnsd.Doc) (addrs []string) {
	var doc struct{ IpConfigurations []struct{ IpAddress string } }
	if data, err := json.Marshal(e); err != nil || json.Unmarshal(data, &doc) != nil {
		return nil
	}
	for _, c := range doc.IpConfigurations {
		addrs = append(addrs, c.IpAddress)
	}
	return addrs
}

// isRemote tells by EndpointFlags 1 (hcsshim hcn.EndpointFlagsRemoteEndpoint).
func isRemote(e hnsd.Doc) bool {
	var doc struct{ Flags uint32 }
	data, err := json.Marshal(e)
	return err == nil && json.Unmarshal(data, &doc) == nil && doc.Flags&1 != 0
}

// endpoints notes remote endpoints that exist twice or without a use, and endpoints of others that are gone. Call it
// after frontends.
func (v *view) endpoints(docs []hnsd.Doc, want frontends) {
	foreign := map[string]bool{}
	for _, id := range v.f.Endpoints {
		foreign[id] = true
	}
	vips := map[string]bool{} // an Overlay network needs an endpoint per cluster address
	for key := range want {
		vip, _, _ := strings.Cut(key, "/")
		vips[vip] = true
	}

	seen := map[string]bool{}
	for _, e := range docs {
		id, addr := text(e, "ID"), strings.Join(endpointAddrs(e), " ") // a remote endpoint has one
		if foreign[id] {
			delete(foreign, id)
			continue
		}
		if !isRemote(e) {
			continue
		}
		if seen[addr] {
			v.note("remote endpoint %s is there twice", addr)
		}
		seen[addr] = true
		if !v.used[id] && !vips[addr] {
			v.note("remote endpoint %s is there for nothing", addr)
		}
	}

	for id := range foreign {
		v.note("foreign endpoint %s is gone", id)
	}
}

// expectation works out what the objects of the API imply for a host.
type expectation struct{ *Host }

// wanted reads the objects that the host sees and works out its frontends, and those that it may have besides.
func (h expectation) wanted(ctx context.Context) (want, optional frontends, err error) {
	o := metav1.ListOptions{}
	if h.o.Isolated {
		o.LabelSelector = Label(h.Name)
	}
	services, err := h.lab.Client.CoreV1().Services("").List(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	list, err := h.lab.Client.DiscoveryV1().EndpointSlices("").List(ctx, o)
	if err != nil {
		return nil, nil, err
	}

	byService := map[string][]discoveryv1.EndpointSlice{}
	for _, e := range list.Items {
		name := e.Namespace + "/" + e.Labels[discoveryv1.LabelServiceName]
		byService[name] = append(byService[name], e)
	}

	want, optional = frontends{}, frontends{}
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone ||
			s.Labels["service.kubernetes.io/service-proxy-name"] != "" {
			continue
		}
		for _, p := range s.Spec.Ports {
			own := byService[s.Namespace+"/"+s.Name]
			maps.Copy(want, h.imply(&s, p, own))
			maps.Copy(optional, h.inCluster(&s, p, own))
		}
	}

	return want, optional, nil
}

// protocols by HNS's number (IANA).
var protocols = map[corev1.Protocol]int{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17}

// imply returns the frontends of one port of a service on the host. Those in IPv6 are left out if the pods' network
// has no IPv6.
func (h expectation) imply(s *corev1.Service, p corev1.ServicePort, list []discoveryv1.EndpointSlice) frontends {
	out := frontends{}
	number, ok := protocols[p.Protocol]
	if !ok {
		return out
	}
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	set := func(vip string, v6 bool, port int32, onlyLocal bool) {
		if v6 && !h.o.IPv6 {
			return
		}
		if backends := usable(list, p, h.Name, onlyLocal, v6); backends != "" {
			out[fmt.Sprintf("%s/%d/%d", vip, number, port)] = backends
		}
	}

	add := func(vip string, onlyLocal bool) {
		if a, err := netip.ParseAddr(vip); err == nil {
			set(a.String(), a.Is6(), p.Port, onlyLocal)
		}
	}
	for _, ip := range s.Spec.ClusterIPs {
		add(ip, s.Spec.InternalTrafficPolicy != nil &&
			*s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal)
	}
	if p.NodePort != 0 {
		for _, family := range s.Spec.IPFamilies {
			v6 := family == corev1.IPv6Protocol
			set(nodePortVIP(v6), v6, p.NodePort, local)
		}
	}

	for _, ip := range s.Spec.ExternalIPs {
		add(ip, local)
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			add(in.IP, local)
		}
	}

	return out
}

// inCluster are the frontends that may be there for clients in the cluster: node ports at the host's own addresses,
// for its programs; outside clients reach them too, so the external policy holds. And, whatever that policy says,
// addresses from outside for which the host has no backend of its own.
func (h expectation) inCluster(s *corev1.Service, p corev1.ServicePort, list []discoveryv1.EndpointSlice) frontends {
	out := frontends{}
	set := func(addr netip.Addr, port int32, onlyLocal bool) {
		if !addr.IsValid() || addr.Is6() && !h.o.IPv6 {
			return
		}
		if backends := usable(list, p, h.Name, onlyLocal, addr.Is6()); backends != "" {
			out[fmt.Sprintf("%s/%d/%d", addr, protocols[p.Protocol], port)] = backends
		}
	}

	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if p.NodePort != 0 {
		set(h.Addr, p.NodePort, local)
		set(h.Addr6, p.NodePort, local)
	}
	if !local {
		return out
	}

	external := slices.Clone(s.Spec.ExternalIPs)
	for _, in := range s.Status.LoadBalancer.Ingress {
		external = append(external, in.IP)
	}

	for _, ip := range external {
		if addr, err := netip.ParseAddr(ip); err == nil && usable(list, p, h.Name, true, addr.Is6()) == "" {
			set(addr, p.Port, false)
		}
	}

	return out
}

// usable returns the ready endpoints. Without any, it returns those that terminate and still serve.
func usable(list []discoveryv1.EndpointSlice, p corev1.ServicePort, node string, onlyLocal, v6 bool) string {
	var ready, serving []string
	port := int32(0)
	for _, e := range list {
		if (e.AddressType == discoveryv1.AddressTypeIPv6) != v6 {
			continue
		}
		for _, ep := range e.Ports {
			if ep.Port == nil || ep.Name != nil && *ep.Name != p.Name ||
				ep.Protocol != nil && *ep.Protocol != p.Protocol {
				continue
			}
			port = *ep.Port
			for _, point := range e.Endpoints {
				if onlyLocal && (point.NodeName == nil || *point.NodeName != node) || len(point.Addresses) == 0 {
					continue
				}
				c := point.Conditions
				switch {
				case c.Ready == nil || *c.Ready:
					ready = append(ready, point.Addresses[0])
				case c.Serving != nil && *c.Serving && c.Terminating != nil && *c.Terminating:
					serving = append(serving, point.Addresses[0])
				}
			}
		}
	}

	if len(ready) == 0 {
		ready = serving
	}
	if len(ready) == 0 {
		return ""
	}
	slices.Sort(ready)

	return fmt.Sprintf("%s port %d", strings.Join(slices.Compact(ready), ","), port)
}
