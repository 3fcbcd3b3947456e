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
)

// Foreign names HNS objects that are not the proxy's: they must be there still, unchanged, and count for nothing else.
type Foreign struct {
	LoadBalancers, Endpoints []string // ids
}

// frontends are what services imply, or what HNS has: backends by "VIP/protocol/port", sorted and joined. The VIP of a
// node port is empty.
type frontends map[string]string

// Settled waits until HNS has exactly what the services imply: see Diff. It does not wait for a program that has ended.
func (h *Host) Settled(ctx context.Context, within time.Duration, f Foreign) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	if n := len(h.procs); n > 0 {
		last := h.procs[n-1]
		go func() {
			select {
			case <-last.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	h.mu.Unlock()
	return Until(ctx, within, "HNS to be as the services want it", func(ctx context.Context) error {
		diff, err := h.Diff(ctx, f)
		if err != nil {
			return err
		}
		if len(diff) > 0 {
			return errors.New(strings.Join(diff[:min(8, len(diff))], "; "))
		}
		return nil
	})
}

// Diff lists how HNS differs from what the services and slices that the host sees imply, by the rules of Kubernetes and
// none of a proxy's: each frontend has one load balancer with the right backends, nothing else has one, and no remote
// endpoint is there twice or for nothing. A load balancer for programs of the host itself, with its address and a node port,
// may be there, with all backends. Frontends whose backends have different ports are compared by address.
func (h *Host) Diff(ctx context.Context, f Foreign) ([]string, error) {
	d, err := h.HNS.Dump(ctx)
	if err != nil {
		return nil, err
	}
	want, optional, err := h.wanted(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{f: f, addr: map[string]string{}, used: map[string]bool{}}
	for _, e := range d.Endpoints {
		v.addr[text(e, "ID")] = endpointAddr(e)
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

// LoadBalancers gives the ids of HNS's load balancers by frontend: "VIP/protocol/port", without a VIP for node ports.
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

// LoadBalancerOrder gives the frontends of HNS's load balancers, oldest first.
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
	f    Foreign
	addr map[string]string // of endpoints, by id
	used map[string]bool   // endpoints of load balancers
	diff []string
}

func (v *view) note(format string, args ...any) {
	v.diff = append(v.diff, fmt.Sprintf(format, args...))
}

// lbDoc is the part of a load balancer's document that matters here. Protocol may be a number or its text.
type lbDoc struct {
	ID                   string
	HostComputeEndpoints []string
	FrontendVIPs         []string
	PortMappings         []struct {
		Protocol                   json.RawMessage
		InternalPort, ExternalPort uint16
	}
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
		vips = []string{""}
	}
	var keys []string
	for _, vip := range vips {
		for _, p := range lb.PortMappings {
			keys = append(keys, fmt.Sprintf("%s/%s/%d", vip, strings.Trim(string(p.Protocol), `"`), p.ExternalPort))
		}
	}
	return keys
}

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
			addr, ok := v.addr[id]
			if !ok {
				addr = "dead endpoint " + id
			}
			backends = append(backends, addr)
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
	}
	for id := range foreign {
		v.note("foreign load balancer %s is gone", id)
	}
	return have
}

func endpointAddr(e hnsd.Doc) string {
	var doc struct{ IpConfigurations []struct{ IpAddress string } }
	if data, err := json.Marshal(e); err != nil || json.Unmarshal(data, &doc) != nil || len(doc.IpConfigurations) == 0 {
		return ""
	}
	return doc.IpConfigurations[0].IpAddress
}

// isRemote tells by EndpointFlags 1 (hcsshim hcn.EndpointFlagsRemoteEndpoint).
func isRemote(e hnsd.Doc) bool {
	var doc struct{ Flags uint32 }
	data, err := json.Marshal(e)
	return err == nil && json.Unmarshal(data, &doc) == nil && doc.Flags&1 != 0
}

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
		id, addr := text(e, "ID"), endpointAddr(e)
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

// wanted reads the objects that the host sees and works out its frontends, and those that it may have besides.
func (h *Host) wanted(ctx context.Context) (want, optional frontends, err error) {
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
		if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone || s.Labels["service.kubernetes.io/service-proxy-name"] != "" {
			continue
		}
		for _, p := range s.Spec.Ports {
			own := byService[s.Namespace+"/"+s.Name]
			maps.Copy(want, imply(&s, p, own, h.Name))
			maps.Copy(optional, h.fromItself(&s, p, own))
		}
	}
	return want, optional, nil
}

// protocols by HNS's number (IANA).
var protocols = map[corev1.Protocol]int{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17}

// imply gives the frontends of one port of a service on a node.
func imply(s *corev1.Service, p corev1.ServicePort, list []discoveryv1.EndpointSlice, node string) frontends {
	out := frontends{}
	number, ok := protocols[p.Protocol]
	if !ok {
		return out
	}
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	add := func(vip string, port int32, onlyLocal bool) {
		v6 := false
		if a, err := netip.ParseAddr(vip); err == nil {
			v6 = a.Is6()
		} else if vip != "" {
			return
		}
		if backends := usable(list, p, node, onlyLocal, v6); backends != "" {
			out[fmt.Sprintf("%s/%d/%d", vip, number, port)] = backends
		}
	}
	for _, ip := range s.Spec.ClusterIPs {
		add(ip, p.Port, s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal)
	}
	if p.NodePort != 0 {
		add("", p.NodePort, local)
	}
	for _, ip := range s.Spec.ExternalIPs {
		add(ip, p.Port, local)
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			add(in.IP, p.Port, local)
		}
	}
	return out
}

// fromItself are the frontends by which programs of the host reach a node port. Outside clients reach them too, so the
// external policy holds.
func (h *Host) fromItself(s *corev1.Service, p corev1.ServicePort, list []discoveryv1.EndpointSlice) frontends {
	out := frontends{}
	if p.NodePort == 0 {
		return out
	}
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	for _, addr := range []netip.Addr{h.Addr, h.Addr6} {
		if backends := usable(list, p, h.Name, local, addr.Is6()); addr.IsValid() && backends != "" {
			out[fmt.Sprintf("%s/%d/%d", addr, protocols[p.Protocol], p.NodePort)] = backends
		}
	}
	return out
}

// usable are the ready endpoints, or, if there is none, those that terminate and still serve.
func usable(list []discoveryv1.EndpointSlice, p corev1.ServicePort, node string, onlyLocal, v6 bool) string {
	var ready, serving []string
	port := int32(0)
	for _, e := range list {
		if (e.AddressType == discoveryv1.AddressTypeIPv6) != v6 {
			continue
		}
		for _, ep := range e.Ports {
			if ep.Port == nil || ep.Name != nil && *ep.Name != p.Name || ep.Protocol != nil && *ep.Protocol != p.Protocol {
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
