package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	serviceFigure    = "hns-calls-per-new-service"
	serviceTarget    = 4 // three remote endpoints and a load balancer
	serviceNode      = "win01"
	serviceNamespace = "porthole-bench"
)

// benchService counts the calls that kube-proxy makes to HNS for a new ClusterIP service with three endpoints on
// another node. The proxy checks periodically that HNS still has everything; the service comes right after such a
// check.
func benchService(ctx context.Context, dir string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	client, _, err := kube.Load(filepath.Join(dir, "kubeconfig"), "porthole-bench", -1, 0)
	if err != nil {
		return err
	}
	// Nobody listens at the addresses: HNS only has to make them.
	addresses, err := remoteAddresses(ctx, client)
	if err != nil {
		return err
	}

	// The statistics are read from the host's control socket.
	hns := hns{filepath.Join(dir, "hosts", serviceNode)}
	name := metav1.ObjectMeta{Name: serviceNamespace}
	if _, err := client.CoreV1().Namespaces().
		Create(ctx, &v1.Namespace{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return err
	}
	// The namespace goes even if the run was interrupted.
	defer func() {
		err = errors.Join(err, client.CoreV1().Namespaces().
			Delete(context.WithoutCancel(ctx), serviceNamespace, metav1.DeleteOptions{}))
	}()
	if err := checkGone(ctx, client); err != nil {
		return err
	}

	// A check that fell into the measurement would add listings to the calls.
	checked := hns.afterCheck(ctx)
	before, err := hns.calls(ctx)
	if err != nil {
		return err
	}
	// The slice comes before its service, so that the proxy has all endpoints when it hears of the
	// service.
	if err := createSlice(ctx, client, addresses); err != nil {
		return err
	}
	created, err := createService(ctx, client)
	if err != nil {
		return err
	}
	programmed, err := hns.balancerSince(ctx, before)
	if err != nil {
		return err
	}

	after, err := hns.settled(ctx, 3*time.Second)
	if err != nil {
		return err
	}
	printService(before, after, checked)
	print(figure{Name: "service-to-hns", Unit: "s", Ours: round(programmed.Sub(created).Seconds()),
		Note: "from the answer of the API server to the creation of the load balancer"})
	return nil
}

// balancerSince waits for a call that creates a load balancer, which came after the counts before. It returns when it
// saw it.
func (h hns) balancerSince(ctx context.Context, before map[string]int) (seen time.Time, err error) {
	err = wait.For(ctx, 20*time.Second, "kube-proxy to program the service", func(ctx context.Context) error {
		now, err := h.calls(ctx)
		if err == nil && now["HcnCreateLoadBalancer"] == before["HcnCreateLoadBalancer"] {
			err = errors.New("no load balancer was created")
		}
		seen = time.Now()
		return err
	})
	return seen, err
}

// printService prints the calls that came between two counts; checked says that no periodic check is among them.
func printService(before, after map[string]int, checked bool) {
	f := figure{Name: serviceFigure, Unit: "calls", Target: serviceTarget, Calls: map[string]int{},
		Note: "creates of a ClusterIP service with 3 remote endpoints on " + serviceNode +
			"; good only without any listing; all calls are in calls"}
	creates, lists := 0, 0
	for call, n := range after {
		if n -= before[call]; n == 0 {
			continue
		}
		f.Calls[call] = n
		if strings.HasPrefix(call, "HcnCreate") {
			creates += n
		}
		if strings.HasPrefix(call, "HcnEnumerate") {
			lists += n
		}
	}
	if !checked {
		f.Note += "; no periodic check was seen before it, so a listing may be one"
	}
	good := creates <= serviceTarget && lists == 0
	f.Ours, f.OK = creates, &good
	print(f)
}

// checkGone waits for the end of the namespace in which `porthole up` tested the data path: its service goes with it.
func checkGone(ctx context.Context, client kubernetes.Interface) error {
	return wait.For(ctx, time.Minute, "namespace porthole-check to go", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, "porthole-check", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it is still there")
		}
		return err
	})
}

// remoteAddresses are three addresses of the pods of a Linux node that no pod has.
// They are .240 to .242 of its range, which are assumed to be free.
func remoteAddresses(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1.LabelOSStable + "=linux"})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		cidr, err := netip.ParsePrefix(n.Spec.PodCIDR)
		if err != nil {
			continue
		}
		b := cidr.Addr().As4()
		var out []string
		for last := range byte(3) {
			b[3] = 240 + last
			out = append(out, netip.AddrFrom4(b).String())
		}
		return out, nil
	}
	return nil, errors.New("no Linux node has a pod range")
}

// createSlice binds its addresses to the service by name and marks them ready.
func createSlice(ctx context.Context, client kubernetes.Interface, addresses []string) error {
	ready := true
	port := int32(8080)
	protocol := v1.ProtocolTCP
	slice := &discovery.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "bench",
		Labels: map[string]string{discovery.LabelServiceName: "bench"}},
		AddressType: discovery.AddressTypeIPv4, Ports: []discovery.EndpointPort{{Port: &port, Protocol: &protocol}}}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints,
			discovery.Endpoint{Addresses: []string{a}, Conditions: discovery.EndpointConditions{Ready: &ready}})
	}
	_, err := client.DiscoveryV1().EndpointSlices(serviceNamespace).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

// createService returns when the API server had answered. The service has no selector: its slice is
// made by hand.
func createService(ctx context.Context, client kubernetes.Interface) (time.Time, error) {
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}}
	_, err := client.CoreV1().Services(serviceNamespace).Create(ctx, service, metav1.CreateOptions{})
	return time.Now(), err
}

// hns asks the emulated HNS of a host for its statistics.
// hostDir is the folder of the host, where its control socket is.
type hns struct{ hostDir string }

// calls are those of kube-proxy, by function.
// It is empty, without an error, as long as kube-proxy has made no call.
func (h hns) calls(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var stats struct{ Programs map[string]map[string]int }
	if err := control.Host(h.hostDir).Call(ctx, "GET", "/stats", nil, &stats); err != nil {
		return nil, fmt.Errorf("asking HNS for its statistics: %w", err)
	}
	for program, calls := range stats.Programs {
		if strings.Contains(strings.ToLower(program), "kube-proxy") {
			return calls, nil
		}
	}
	return map[string]int{}, nil
}

// afterCheck waits for the proxy's next periodic check to be over; false when none comes within its longest period.
// No check within 75 s is reported in the figure's note.
func (h hns) afterCheck(ctx context.Context) bool {
	lists := func() (n int) {
		calls, _ := h.calls(ctx) // an error shows in the measurement
		for call, count := range calls {
			if strings.HasPrefix(call, "HcnEnumerate") {
				n += count
			}
		}
		return n
	}
	began := lists()
	err := wait.For(ctx, 75*time.Second, "a check", func(context.Context) error {
		if lists() == began {
			return errors.New("none yet")
		}
		return nil
	})
	_, settleErr := h.settled(ctx, time.Second)
	return err == nil && settleErr == nil
}

// settled returns the calls once there was none for the time given.
// It fails after 20 s more than quiet.
func (h hns) settled(ctx context.Context, quiet time.Duration) (map[string]int, error) {
	last, since := "", time.Now()
	var calls map[string]int
	err := wait.For(ctx, quiet+20*time.Second, "kube-proxy to rest", func(ctx context.Context) error {
		var err error
		if calls, err = h.calls(ctx); err != nil {
			return err
		}
		if now := fmt.Sprint(calls); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("it still calls HNS")
		}
		return nil
	})
	return calls, err
}
