package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/test/proxy/lab"
)

var none netip.Addr

const (
	servers    = 4  // pods of the node that answer
	answering  = 20 // services that have them as backends, the first ones
	serverPort = 8080
)

// load is what the API server has. Host h sees services 0 … sizes[h]-1.
// Each size is a label on services and slices, by which an isolated host sees them: hosts with few
// services and hosts with many share one API server.
type load struct {
	lab      *lab.Lab
	node     string
	far      []netip.Addr
	sizes    map[string]int
	services []*corev1.Service
	dns, api netip.AddrPort
}

// hosts of all groups, by the number of services that they see.
// The names are those of the hosts without their prefix.
func sizes() map[string]int {
	out := map[string]int{}
	for _, p := range programs {
		for _, s := range scales {
			out[s.profile+"-"+p] = s.services
		}
		out["crash-"+p] = crashed - 3
		out["idle-"+p] = min(idleServices, scales[0].services)
		out["churn-"+p] = answering
	}
	return out
}

// prepare makes the pods that answer and the objects.
func (b *proxyBench) prepare(ctx context.Context) (err error) {
	if b.node, err = b.lab.AddNode(ctx, "lin"); err != nil {
		return err
	}
	b.load = load{lab: b.lab, node: "lin", sizes: sizes()}
	for i := range servers {
		p, err := b.node.Pod(ctx, fmt.Sprintf("far%d", i), none)
		if err != nil {
			return err
		}
		if _, err := p.Serve(serverPort); err != nil {
			return err
		}
		b.load.far = append(b.load.far, p.Addr)
	}
	return b.load.make(ctx)
}

// labels of the hosts that see service i; i < 0 is seen by all.
// A label exists or does not; its value is empty.
func (l *load) labels(i int) map[string]string {
	out := map[string]string{}
	for host, n := range l.sizes {
		if i < n {
			out[lab.Label(host)] = ""
		}
	}
	return out
}

// remote is the n-th address of a pod on no host of ours.
// The range 10.244.100.0 and above belongs to no host of the lab; 250 addresses of each /24 are
// used.
func remote(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 244, byte(100 + n/250), byte(1 + n%250)})
}

// slots are the backends of service i: two and three by turns, each address in one service. The first services have
// the pods that answer instead.
func (l *load) slots(i int) []netip.Addr {
	if i < answering {
		return l.far
	}
	// Five addresses for each pair of services: two for the even one, three for the odd one.
	first := i/2*5 + i%2*2
	out := []netip.Addr{remote(first), remote(first + 1)}
	if i%2 == 1 {
		out = append(out, remote(first+2))
	}
	return out
}

// addresses counts the distinct remote backends of a scale; DNS and the API have the pods that answer too.
func (l *load) addresses(s scale) int {
	n := len(l.far)
	for i := answering; i < s.services; i++ {
		n += len(l.slots(i))
	}
	return n
}

// backends of each load balancer of a scale: DNS twice, the API, then the services; the last of these have a local
// one more.
func (l *load) backends(s scale) []int {
	out := []int{servers, servers, servers}
	for i := range s.services {
		n := len(l.slots(i))
		if i >= s.services-localPods {
			n++
		}
		out = append(out, n)
	}
	return out
}

// make makes the services and slices of the largest size in the API; smaller sizes use the first of them. What every
// cluster has, such as DNS, comes first.
func (l *load) make(ctx context.Context) error {
	most := 0
	for _, n := range l.sizes {
		most = max(most, n)
	}
	say("making %d services", most)
	l.services = make([]*corev1.Service, most)
	if err := l.essential(ctx); err != nil {
		return err
	}
	return each(most, func(i int) (err error) {
		s := lab.Service(fmt.Sprintf("s%d", i), lab.Port("p", "tcp", 80, serverPort))
		s.Labels = l.labels(i)
		if l.services[i], err = l.lab.ApplyService(ctx, s); err != nil {
			return err
		}
		return l.slice(ctx, i, l.slots(i))
	})
}

// slice writes the main slice of service i.
func (l *load) slice(ctx context.Context, i int, addrs []netip.Addr) error {
	e := lab.Slice(l.services[i], "", lab.On(l.node, addrs...)...)
	for k, v := range l.labels(i) {
		e.Labels[k] = v
	}
	return l.lab.ApplySlice(ctx, e)
}

// local puts a pod of the host behind one of its last services, for this host only.
// It is a slice of its own beside the main one, with the host's label only.
func (l *load) local(ctx context.Context, t *bench, i int, addr netip.Addr) error {
	s := l.services[t.scale.services-1-i]
	e := lab.Slice(s, "-"+t.Name, lab.On(t.Name, addr)...)
	e.Labels[lab.Label(t.Name)] = ""
	return l.lab.ApplySlice(ctx, e)
}

// essential makes the DNS service, and the API's visible to the hosts, both with pods that answer.
func (l *load) essential(ctx context.Context) error {
	dns := lab.Service("kube-dns", lab.Port("dns", "udp", 53, serverPort), lab.Port("dns-tcp", "tcp", 53, serverPort))
	dns.Namespace = "kube-system"
	dns.Labels = l.labels(-1)
	dns.Labels["k8s-app"] = "kube-dns"
	made, err := l.lab.ApplyService(ctx, dns)
	if err != nil {
		return err
	}
	l.dns = lab.ClusterAddr(made, 53)

	e := lab.Slice(made, "", lab.On(l.node, l.far...)...)
	for k, v := range l.labels(-1) {
		e.Labels[k] = v
	}
	if err := l.lab.ApplySlice(ctx, e); err != nil {
		return err
	}
	// The service "kubernetes" exists already, made by the API server. It gets the labels and a
	// slice that leads to the pods that answer.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": l.labels(-1)}})
	if err != nil {
		return err
	}

	api, err := l.lab.Client.CoreV1().Services("default").
		Patch(ctx, "kubernetes", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	l.api = lab.ClusterAddr(api, 443)
	e = lab.Slice(api, "-bench", lab.On(l.node, l.far...)...)
	for i := range e.Ports {
		port := int32(serverPort)
		e.Ports[i].Port = &port
	}

	for k, v := range l.labels(-1) {
		e.Labels[k] = v
	}
	return l.lab.ApplySlice(ctx, e)
}

// each runs f for 0 … n-1, several at once.
// Sixteen callers share the numbers. All run to the end, and their errors are joined.
func each(n int, f func(int) error) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := make(chan int)
	for range 16 {
		group.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	return errors.Join(errs...)
}
