package lab

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// echo runs one server pod per node, with HTTP, TCP and UDP, behind a service of both protocols and a NodePort.
const echo = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: echo}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: echo, image: "porthole/testapp:1", args: [serve, --http, ":8080", --tcp, ":7000", --udp, ":7000"]}]
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec:
  type: NodePort
  selector: {app: echo}
  ports:
  - {name: http, port: 80, targetPort: 8080, nodePort: 30080}
  - {name: tcp, port: 7000, targetPort: 7000, nodePort: 30070}
  - {name: udp, port: 7000, targetPort: 7000, protocol: UDP, nodePort: 30070}
`

const (
	outside  = "203.0.113.1"
	torNetns = "porthole-tor"
)

var nodeAddresses = map[string]string{"lin01": "10.99.0.11", "win01": "10.99.0.21", "win02": "10.99.0.22"}

// echoPods starts echo and returns its pods by node, and the service's address.
func echoPods(t *testing.T) (map[string]v1.Pod, string) {
	t.Helper()
	apply(t, echo)
	pods := map[string]v1.Pod{}
	wait.NoError(t, podWait, "the echo pods", func() error {
		out, err := kubectlErr("get", "pods", "-l", "app=echo", "-o", "json")
		if err != nil {
			return err
		}
		var list v1.PodList
		if err := unmarshal(out, &list); err != nil {
			return err
		}
		for _, pod := range list.Items {
			if err := isReady(&pod); err != nil {
				return fmt.Errorf("%s on %s: %w", pod.Name, pod.Spec.NodeName, err)
			}
			pods[pod.Spec.NodeName] = pod
		}
		if len(pods) != len(nodeAddresses) {
			return fmt.Errorf("pods on %d nodes", len(pods))
		}
		return nil
	})

	var service v1.Service
	object(t, &service, "service", "echo")
	for node, pod := range pods { // the service has reached every node
		wait.NoError(t, 20*time.Second, "the service", func() error {
			if _, err := fromPod(pod, fetch("http://"+service.Spec.ClusterIP+"/")); err != nil {
				return fmt.Errorf("from %s to the service: %w", node, err)
			}
			return nil
		})
	}

	return pods, service.Spec.ClusterIP
}

// curl fetches from inside a namespace of the lab.
func curl(netns, address string) (string, error) {
	return inNetns(12*time.Second, netns, "curl", "-sS", "--fail-with-body", "-m", "8", address)
}

// fromPod lets a pod make the request. The pod is asked to do so from lin01.
func fromPod(pod v1.Pod, what string) (string, error) {
	return curl("porthole-lin01", "http://"+pod.Status.PodIP+":8080"+what)
}

func fetch(address string) string { return "/fetch?url=" + url.QueryEscape(address) }

// TestSeedRouteTable: packets pass on every path between one Linux and two Windows hosts, whose pods have three /24s
// of one /16.
// Rows 1.19, 1.42, 1.69.
func TestSeedRouteTable(t *testing.T) {
	pods, clusterIP := echoPods(t)
	type path struct {
		name string
		try  func() (string, error)
		want string // in the answer
	}

	var paths []path
	for from, pod := range pods {
		for to, target := range pods {
			paths = append(paths, path{fmt.Sprintf("pod on %s to pod on %s", from, to),
				func() (string, error) { return fromPod(pod, fetch("http://"+target.Status.PodIP+":8080/")) },
				"client=" + pod.Status.PodIP + ":"})
		}

		paths = append(paths,
			path{"node " + from + " to its pod",
				func() (string, error) { return curl("porthole-"+from, "http://"+pod.Status.PodIP+":8080/") },
				"hostname="},
			path{"pod on " + from + " to its node",
				func() (string, error) { return fromPod(pod, fetch("http://"+nodeAddresses[from]+":10256/healthz")) },
				""},
			path{"pod on " + from + " to the service",
				func() (string, error) { return fromPod(pod, fetch("http://"+clusterIP+"/")) }, "hostname="},
			path{"pod on " + from + " to the service over UDP",
				func() (string, error) { return fromPod(pod, "/echo?network=udp&addr="+clusterIP+":7000") }, "ok"},
			path{"node " + from + " to the service",
				func() (string, error) { return curl("porthole-"+from, "http://"+clusterIP+"/") }, "hostname="},
			path{"outside to NodePort of " + from,
				func() (string, error) { return curl(torNetns, "http://"+nodeAddresses[from]+":30080/") }, "hostname="},
			path{"pod on " + from + " to the service's name",
				func() (string, error) { return fromPod(pod, fetch("http://echo.default.svc.cluster.local/")) },
				"hostname="},
		)

		for to := range pods {
			paths = append(paths, path{fmt.Sprintf("node %s to pod on %s", from, to),
				func() (string, error) { return curl("porthole-"+from, "http://"+pods[to].Status.PodIP+":8080/") },
				"hostname="})
		}
	}

	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, p := range paths {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var out string
			// A new service takes some time to reach every node.
			err := wait.For(t.Context(), 10*time.Second, p.name, func(context.Context) (err error) {
				out, err = p.try()
				return err
			})
			if err != nil || !strings.Contains(out, p.want) {
				t.Errorf("%s: %v %q, want %q", p.name, err, out, p.want)
			}
		})
	}

	wg.Wait()
	t.Logf("%d paths", len(paths))
}

// TestIISSample applies the sample as it is and asks it through the node port of each node, from a Linux node and from
// outside.
// Row 1.81.
func TestIISSample(t *testing.T) {
	sample, err := os.ReadFile("../../samples/iis.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(sample))
	kubectl(t, "rollout", "status", "deployment/iis", "--timeout=2m")

	port := strings.TrimSpace(kubectl(t, "get", "service", "iis", "-o", "jsonpath={.spec.ports[0].nodePort}"))
	for from, netns := range map[string]string{"lin01": "porthole-lin01", "outside": torNetns} {
		for node, address := range nodeAddresses {
			if from == node {
				continue
			}
			wait.NoError(t, podWait, "an answer of the sample", func() error {
				out, err := curl(netns, "http://"+address+":"+port+"/")
				if err == nil && !strings.Contains(out, "hostname=iis-") {
					err = fmt.Errorf("it is %q", out)
				}
				if err != nil {
					err = fmt.Errorf("from %s by %s: %w", from, node, err)
				}
				return err
			})
		}
	}
}

// TestOutboundNAT: the outside sees the node's address. Destinations that are exceptions, such as pods of other nodes,
// see the pod's own.
// Row 1.68.
func TestOutboundNAT(t *testing.T) {
	pods, _ := echoPods(t)
	stop := echoOutside(t)
	defer stop()
	for node, pod := range pods {
		out, err := fromPod(pod, fetch("http://"+outside+":8098/"))
		if want := "client=" + nodeAddresses[node] + ":"; err != nil || !strings.Contains(out, want) {
			t.Errorf("pod on %s to the outside: %v %q, want %q", node, err, out, want)
		}
	}
}

// echoOutside runs the test program as a server on the outside address.
func echoOutside(t *testing.T) (stop func()) {
	t.Helper()
	app := strings.TrimSuffix(porthole, "porthole") + "bundle/images/linux/testapp"
	cmd, err := startInNetns(torNetns, app, "serve", "--http", outside+":8098")
	if err != nil {
		t.Fatal(err)
	}
	wait.NoError(t, 10*time.Second, "the outside server",
		func() error { _, err := curl(torNetns, "http://"+outside+":8098/"); return err })
	return func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() }
}

// TestSpreadOverAllBackends makes so many connections that by chance alone a share is off by a tenth once in 5,000
// runs (3.9 standard deviations).
// Row 1.77.
func TestSpreadOverAllBackends(t *testing.T) {
	pods, clusterIP := echoPods(t)
	const connections = 3000
	for _, node := range []string{"win01", "lin01"} {
		out := kubectl(t, "exec", pods[node].Name, "--", "testapp", "spread", strconv.Itoa(connections),
			"http://"+clusterIP+"/")
		seen, all := map[string]int{}, 0
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			var times int
			var backend string
			if _, err := fmt.Sscan(line, &times, &backend); err != nil {
				t.Fatalf("from %s: %q: %v", node, line, err)
			}
			seen[backend], all = times, all+times
		}

		t.Logf("from %s: %v", node, seen)
		share := connections / len(pods)
		for backend, times := range seen {
			if times < share*9/10 || times > share*11/10 {
				t.Errorf("from %s: backend %s has %d of %d connections, want %d within a tenth", node, backend, times,
					connections, share)
			}
		}
		if len(seen) != len(pods) || all != connections {
			t.Errorf("from %s: %d connections reached %v, want %d to %d backends", node, all, seen, connections,
				len(pods))
		}
	}
}

// TestDNSOverUDP asks the cluster's DNS over UDP, 10,000 times, with queries of the test program's own making, each
// from another port.
// Row 1.76.
func TestDNSOverUDP(t *testing.T) {
	pods, _ := echoPods(t)
	for _, node := range []string{"win01", "win02", "lin01"} {
		out := kubectl(t, "exec", pods[node].Name, "--", "testapp", "dnsudp", "10.96.0.10",
			"kubernetes.default.svc.cluster.local", "3334")
		if strings.TrimSpace(out) != "3334 10.96.0.1" {
			t.Errorf("DNS over UDP from %s gives %q", node, out)
		}
	}
}

// TestRouteComesBack removes a host-gateway route behind our back on every node.
// Row 1.41.
func TestRouteComesBack(t *testing.T) {
	var nodes v1.NodeList
	object(t, &nodes, "nodes")
	for _, n := range nodes.Items {
		for _, other := range nodes.Items {
			if other.Name == n.Name {
				continue
			}
			netns := "porthole-" + n.Name
			if _, err := inNetns(5*time.Second, netns, "ip", "route", "del", other.Spec.PodCIDR); err != nil {
				t.Fatalf("node %s: %v", n.Name, err)
			}
			started := time.Now()
			wait.NoError(t, 2*time.Second, "the route to "+other.Name, func() error {
				out, err := inNetns(5*time.Second, netns, "ip", "route", "show", other.Spec.PodCIDR)
				if err == nil && !strings.Contains(out, "via "+nodeAddresses[other.Name]) {
					err = fmt.Errorf("%s has no route to %s: %q", n.Name, other.Spec.PodCIDR, out)
				}
				return err
			})
			t.Logf("%s: route to %s is back after %s", n.Name, other.Name, time.Since(started).Round(time.Millisecond))
		}
	}
}

// dialIn opens a TCP connection inside a namespace.
func dialIn(netns, address string) (net.Conn, error) {
	var conn net.Conn
	err := platformInNetns(netns, func() (err error) {
		conn, err = net.DialTimeout("tcp", address, 5*time.Second)
		return err
	})
	return conn, err
}
