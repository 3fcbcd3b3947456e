package networks

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/hnsd/serve"
	hosts "porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/capture"
	"porthole.dev/porthole/internal/testkit/wait"
)

// promise is what a mode says about packets between nodes.
type promise struct {
	mtu int // of pods, towards pods on other nodes
	// encap is "" if packets cross the wire between nodes as they are, else "vxlan" or "geneve" with the VNI and the
	// UDP port.
	encap string
	vni   uint32 // 0: any
	// card is the network card that packets between nodes leave by, and tunnel the address of a node there; "" and
	// nil: eth0 and the node's own.
	card   string
	tunnel func(node string) netip.Addr
	port   uint16
	// hops returns who answers, in order, for packets of a pod on one node to a pod on another whose TTL ends earlier;
	// "*" is anybody.
	hops func(l *lab, from, to string) []string
	// via returns the node or lab.Router ("tor") whose MAC address packets of the one node to pods on the other have
	// on the wire.
	via func(from, to string) string
}

// onePerNode is two echo servers on a node, a and b, and a service in front of a.
const onePerNode = `
apiVersion: v1
kind: Pod
metadata: {name: a-%[1]s, labels: {app: paths, role: a, at: %[1]s}}
spec: {nodeName: %[1]s, terminationGracePeriodSeconds: 0, containers: [{name: echo, image: "porthole/testapp:1", args: [serve, --http, ":8080", --tcp, ":7000", --udp, ":7000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b-%[1]s, labels: {app: paths, role: b, at: %[1]s}}
spec: {nodeName: %[1]s, terminationGracePeriodSeconds: 0, containers: [{name: echo, image: "porthole/testapp:1", args: [serve, --http, ":8080", --tcp, ":7000", --udp, ":7000"]}]}
---
apiVersion: v1
kind: Service
metadata: {name: a-%[1]s}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {app: paths, role: a, at: %[1]s}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tcp, port: 7000, targetPort: 7000}
  - {name: udp, port: 7000, targetPort: 7000, protocol: UDP}
---
`

// fleet is the pods of onePerNode on every node.
type fleet struct {
	*lab
	pods     map[string]v1.Pod     // a-NODE and b-NODE
	services map[string]string     // the cluster IP of a-NODE, by node
	netns    map[string]string     // path of a pod's network namespace, by the pod's name
	addr     map[string]netip.Addr // of a pod
	// the same pods, services and nodes by their addresses of IPv6; nil in a cluster without it
	six *fleet
}

// fleet starts the pods and waits until the services have reached every node.
func (l *lab) fleet() *fleet {
	l.t.Helper()
	var all strings.Builder
	for _, n := range nodeNames {
		fmt.Fprintf(&all, onePerNode, n)
	}
	l.apply(all.String())
	f := &fleet{lab: l, pods: l.waitPods("app=paths", 2*len(nodeNames)), services: map[string]string{},
		netns: map[string]string{}, addr: map[string]netip.Addr{}}

	var services v1.ServiceList
	if err := get(&services, "services"); err != nil {
		l.t.Fatal(err)
	}
	for _, s := range services.Items {
		if node, ok := strings.CutPrefix(s.Name, "a-"); ok {
			f.services[node] = s.Spec.ClusterIP
			f.addSix(func(six *fleet) { six.services[node] = s.Spec.ClusterIPs[1] }, len(s.Spec.ClusterIPs) > 1)
		}
	}

	for name, p := range f.pods {
		addr, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil {
			l.t.Fatalf("address of %s: %v", name, err)
		}
		f.addr[name] = addr
		wait.NoError(l.t, 30*time.Second, "network namespace of "+name, func() (err error) {
			f.netns[name], err = netnsOf(addr)
			return err
		})
		f.addSix(func(six *fleet) { six.addr[name] = netip.MustParseAddr(p.Status.PodIPs[1].IP) },
			len(p.Status.PodIPs) > 1)
	}
	if f.six != nil && (len(f.six.addr) != len(f.addr) || len(f.six.services) != len(f.services)) {
		l.t.Fatalf("pods %v and services %v have IPv6, want all", f.six.addr, f.six.services)
	}
	return f
}

// addSix puts something into the fleet of IPv6, if the cluster has it.
func (f *fleet) addSix(put func(*fleet), has bool) {
	if !has {
		return
	}
	if f.six == nil {
		l := &lab{t: f.t, mode: f.mode, nodes: map[string]netip.Addr{}}
		for name, addr := range f.nodes {
			l.nodes[name] = hosts.Six(addr)
		}
		f.six = &fleet{lab: l, pods: f.pods, netns: f.netns, services: map[string]string{},
			addr: map[string]netip.Addr{}}
	}
	put(f.six)
}

// netnsOf returns the path of the network namespace of this cluster in which a pod's address is. The containerd of a
// Linux node keeps those of its pods in its own folder, the HNS of a Windows node where all named ones are, those of
// other clusters too. That of a pod that is being deleted can have the address too, for a moment: an error.
func netnsOf(addr netip.Addr) (string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "hosts", "*", "containerd", "*", "*", "netns", "*"))
	if err != nil {
		return "", err
	}
	for _, node := range nodeNames {
		own, err := serve.OwnNetns(filepath.Join(dir, "hosts", node)) // none of a Linux node
		if err != nil {
			return "", err
		}
		for _, name := range own {
			paths = append(paths, platform.NetnsPath(name))
		}
	}

	var has []string
	for _, path := range paths {
		found := false
		err := platform.InNetns(path, func() error {
			list, err := net.InterfaceAddrs()
			found = slices.ContainsFunc(list,
				func(a net.Addr) bool { return strings.HasPrefix(a.String(), addr.String()+"/") })
			return err
		})
		if err == nil && found {
			has = append(has, path)
		}
	}
	if len(has) != 1 {
		return "", fmt.Errorf("the address %s is in %v, want one of %d network namespaces", addr, has, len(paths))
	}
	return has[0], nil
}

// path is a sender and a receiver between which packets must pass; try returns nil if they do.
type path struct {
	name string
	try  func() error
}

// checkPaths sends packets on every path of the table T1 (network.md, section 10), and fails the test with the name of
// each that does not carry them.
func (f *fleet) checkPaths(want promise) {
	f.t.Helper()
	started := time.Now()
	paths := slices.Concat(f.podPaths(), f.nodePaths(), f.servicePaths())
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, p := range paths {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			wait10(f.t, p)
		})
	}
	wg.Wait()
	f.t.Logf("%d paths in %.1f s", len(paths), time.Since(started).Seconds())

	f.checkWire(want)
	f.checkHops(want)
	f.checkMTU(want)
	if f.six != nil {
		f.six.checkPaths(want)
	}
}

// wait10 tries a path for 10 s: a new service takes some time to reach every node, and the first packet of a cold path
// can be lost.
func wait10(t *testing.T, p path) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := p.try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: %v", p.name, err)
			return
		}
	}
}

// megabyte is what goes through a TCP connection, there and back; datagram goes in one UDP packet.
const (
	megabyte = 1 << 20
	datagram = 1200
)

// streams are sizes of streams that some data paths carry differently (row 1.31): one packet that nearly fills the
// link, and one segment of the largest size that network cards take over.
var streams = []int{1400, 64 << 10}

// ask lets a pod make the request, which the test sends it from the pod's own node. what is of testapp.
func (f *fleet) ask(pod, what string) (string, error) {
	return commandIn("porthole-"+f.pods[pod].Spec.NodeName, 15*time.Second, "curl", "-sS", "--fail-with-body", "-m",
		"12", "http://"+f.hostPort(pod, 8080)+what)
}

func (f *fleet) hostPort(pod string, port int) string {
	return netip.AddrPortFrom(f.addr[pod], uint16(port)).String()
}

func fetch(address string) string { return "/fetch?url=" + url.QueryEscape(address) }

func echo(network, address string, size int) string {
	return fmt.Sprintf("/echo?network=%s&bytes=%d&addr=%s", network, size, url.QueryEscape(address))
}

// transfer lets a pod exchange a megabyte over TCP and a packet over UDP with an echo server.
func (f *fleet) transfer(from, to string) error {
	if _, err := f.ask(from, echo("tcp", to, megabyte)); err != nil {
		return fmt.Errorf("1 MB over TCP: %w", err)
	}
	if _, err := f.ask(from, echo("udp", to, datagram)); err != nil {
		return fmt.Errorf("UDP: %w", err)
	}
	return nil
}

// podPaths are those from pods to pods: on one node and across nodes, each with the address of the sender unchanged.
func (f *fleet) podPaths() []path {
	var paths []path
	for _, from := range nodeNames {
		targets := []string{"b-" + from}
		for _, to := range nodeNames {
			if to != from {
				targets = append(targets, "a-"+to)
			}
		}

		for _, to := range targets {
			client := "a-" + from
			paths = append(paths, path{fmt.Sprintf("pod %s to pod %s", client, to), func() error {
				out, err := f.ask(client, fetch("http://"+f.hostPort(to, 8080)+"/"))
				if err != nil {
					return err
				}

				if want := "client=" + f.clientText(client); !strings.Contains(out, want) {
					return fmt.Errorf("the server sees %q, want %q", strings.TrimSpace(out), want)
				}
				if err := f.transfer(client, f.hostPort(to, 7000)); err != nil {
					return err
				}
				for _, size := range streams {
					if _, err := f.ask(client, echo("tcp", f.hostPort(to, 7000), size)); err != nil {
						return fmt.Errorf("%d bytes over TCP: %w", size, err)
					}
				}
				return ping(f.netns[client], f.addr[to], probe{}).err()
			}})
		}
	}
	return paths
}

// clientText is how Go prints the beginning of the address of a client.
func (f *fleet) clientText(pod string) string {
	if f.addr[pod].Is6() {
		return "[" + f.addr[pod].String() + "]:"
	}
	return f.addr[pod].String() + ":"
}

// nodePaths are those between pods and nodes, in both directions.
func (f *fleet) nodePaths() []path {
	var paths []path
	for _, from := range nodeNames {
		for _, to := range nodeNames {
			pod, address := "a-"+to, f.nodes[from]
			paths = append(paths, path{fmt.Sprintf("node %s to pod %s", from, pod), func() error {
				if err := dialEcho("porthole-"+from, "tcp", f.hostPort(pod, 7000), megabyte); err != nil {
					return fmt.Errorf("1 MB over TCP: %w", err)
				}
				if err := dialEcho("porthole-"+from, "udp", f.hostPort(pod, 7000), datagram); err != nil {
					return fmt.Errorf("UDP: %w", err)
				}
				return ping(platform.NetnsPath("porthole-"+from), f.addr[pod], probe{}).err()
			}}, path{fmt.Sprintf("pod %s to node %s", pod, from), func() error {
				if _, err := f.ask(pod, echo("tcp", netip.AddrPortFrom(address, nodeEchoPort).String(),
					megabyte)); err != nil {
					return fmt.Errorf("1 MB over TCP: %w", err)
				}
				if _, err := f.ask(pod, echo("udp", netip.AddrPortFrom(address, nodeEchoPort).String(),
					datagram)); err != nil {
					return fmt.Errorf("UDP: %w", err)
				}
				return ping(f.netns[pod], address, probe{}).err()
			}})
		}
	}

	f.serveOnNodes()
	return paths
}

// servicePaths are those to cluster IPs, from pods (of a service whose pod is on another node, on the same one, and
// the pod itself) and from nodes.
func (f *fleet) servicePaths() []path {
	var paths []path
	for _, from := range nodeNames {
		for _, to := range nodeNames {
			at := net.JoinHostPort(f.services[to], "7000")
			where := map[bool]string{true: "own", false: "remote"}[from == to]
			paths = append(paths,
				path{fmt.Sprintf("pod a-%s to service a-%s (%s)", from, to, where),
					func() error { return f.transfer("a-"+from, at) }},
				path{fmt.Sprintf("node %s to service a-%s", from, to), func() error {
					if err := dialEcho("porthole-"+from, "tcp", at, megabyte); err != nil {
						return fmt.Errorf("1 MB over TCP: %w", err)
					}
					return dialEcho("porthole-"+from, "udp", at, datagram)
				}})
			if from == to {
				paths = append(paths, path{fmt.Sprintf("pod b-%s to service a-%s (local)", from, to),
					func() error { return f.transfer("b-"+from, at) }})
			}
		}
	}
	return paths
}

// checkWire looks at packets between each pair of nodes, on the link of the one that sends.
func (f *fleet) checkWire(want promise) {
	f.t.Helper()
	for _, from := range nodeNames {
		wire := capture.Start(f.t, platform.NetnsPath("porthole-"+from), cmp.Or(want.card, "eth0"))
		for _, to := range nodeNames {
			if to == from {
				continue
			}
			src, dst := f.addr["a-"+from], f.addr["a-"+to]
			if err := ping(f.netns["a-"+from], dst, probe{}).err(); err != nil {
				f.t.Errorf("pod on %s to pod on %s: %v", from, to, err)
				continue
			}

			is := func(p capture.Packet) bool { return p.Src == src && p.Dst == dst && echoes(p) }
			if want.encap == "" {
				p := wire.Wait(f.t, "a request as it is",
					func(p capture.Packet) bool { return p.Inner == nil && is(p) })
				if mac := macOf(f.t, want.via(from, to)); p.DstMAC.String() != mac {
					f.t.Errorf("on the wire of %s to %s: %s goes to MAC %s, want %s of %s", from, to, p, p.DstMAC, mac,
						want.via(from, to))
				}
				continue
			}
			p := wire.Wait(f.t, "a request in "+want.encap,
				func(p capture.Packet) bool { return p.Inner != nil && is(*p.Inner) })
			ends := want.tunnel
			if ends == nil {
				ends = func(node string) netip.Addr { return f.nodes[node] }
			}
			if p.Src != ends(from) || p.Dst != ends(to) || p.Encap != want.encap ||
				want.vni != 0 && p.VNI != want.vni || p.DstPort != want.port {
				f.t.Errorf("on the wire of %s to %s: %s; want %s of VNI %d to port %d", from, to, p, want.encap,
					want.vni, want.port)
			}
		}
	}
}

// echoes reports whether a packet is a request of ping.
func echoes(p capture.Packet) bool {
	return p.Protocol == capture.ICMPv4 && p.ICMP == capture.EchoRequest ||
		p.Protocol == capture.ICMPv6 && p.ICMP == 128
}

// macOf returns the MAC address of a node, or of the router, on the segment.
func macOf(t *testing.T, host string) string {
	t.Helper()
	name, iface := "porthole-"+host, "eth0"
	if host == "tor" {
		iface = "sw0"
	}
	var mac string
	err := platform.InNetns(platform.NetnsPath(name), func() error {
		link, err := net.InterfaceByName(iface)
		if err == nil {
			mac = link.HardwareAddr.String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

// checkHops sends packets whose TTL ends at each hop in turn, and compares who says so.
func (f *fleet) checkHops(want promise) {
	f.t.Helper()
	if want.hops == nil || f.addr["a-lin01"].Is6() { // of whom the answers come from is the same
		return
	}
	for _, from := range nodeNames {
		for _, to := range nodeNames {
			if from == to {
				continue
			}
			var got []string
			target := f.addr["a-"+to]
			for ttl := 1; ttl <= 8; ttl++ {
				a := hop(f.netns["a-"+from], target, ttl)
				got = append(got, a.who())
				if a.from == target {
					break
				}
			}
			if hops := append(want.hops(f.lab, from, to), target.String()); !sameHops(got, hops) {
				f.t.Errorf("packets from a pod on %s to one on %s pass %v, want %v", from, to, got, hops)
			}
		}
	}
}

func sameHops(got, want []string) bool {
	return slices.EqualFunc(got, want, func(g, w string) bool { return g == w || w == "*" })
}

// checkMTU: the largest packet of the mode passes unfragmented to a pod on another node, and one byte more is refused
// with a message.
func (f *fleet) checkMTU(want promise) {
	f.t.Helper()
	for _, from := range nodeNames {
		for _, to := range nodeNames {
			if from == to {
				continue
			}
			ns, target := f.netns["a-"+from], f.addr["a-"+to]
			wait10(f.t, path{fmt.Sprintf("%d bytes from a pod on %s to one on %s", want.mtu, from, to), func() error {
				return ping(ns, target, probe{size: want.mtu}).err()
			}})
			if a := ping(ns, target, probe{size: want.mtu + 1}); !a.tooBig {
				f.t.Errorf("%d bytes from a pod on %s to one on %s: %v, want a message that says they are too many",
					want.mtu+1, from, to, a.err())
			}
		}
	}
}
