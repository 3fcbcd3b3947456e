package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// What throughputs does.
const (
	flowRounds = 9
	flowBytes  = 512 << 20
)

// flowBench has two nodes more, each with a pod.
type flowBench struct {
	*routesBench
	running []*exec.Cmd // agents of the nodes
}

// flowPath is a way to connect the two nodes: a mode of our agents, or routes or a VXLAN device that the bench makes by hand.
type flowPath struct {
	name, floor string // floor: name of the path made by hand that it is compared with; empty: it is made by hand itself
	make        func(context.Context) error
}

// paths returns the two that are made by hand, and then one for each mode.
func (b *flowBench) paths() []flowPath {
	paths := []flowPath{{"bare", "", b.bareRoutes}, {"kernel-vxlan", "", b.bareVXLAN}}
	for _, mode := range b.modes() {
		floor := "bare"
		if mode == "vxlan" {
			floor = "kernel-vxlan"
		}
		paths = append(paths, flowPath{mode, floor, func(ctx context.Context) error { return b.agents(ctx, mode) }})
	}
	return paths
}

// throughputs measures a TCP connection between pods on two nodes: over routes and a kernel VXLAN that are made by hand, and over those
// of our agent. All pass the same veths.
func (b *flowBench) throughputs(ctx context.Context) error {
	samples := map[string][]float64{}
	paths := b.paths()
	for range flowRounds {
		for _, p := range paths {
			rate, err := b.throughput(ctx, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			samples[p.name] = append(samples[p.name], rate)
		}
	}

	for _, p := range paths {
		if p.floor == "" {
			continue
		}
		ours, floor := median(samples[p.name]), median(samples[p.floor])
		good := ours >= 0.95*floor
		print(figure{Name: "routes." + p.name + ".throughput", Unit: "Gbit/s", Ours: ours, Floor: floor, OfFloor: round(ours / floor), OK: &good,
			Note:    "pod to pod across nodes, one TCP connection; the floor is " + p.floor + " made by hand; at least 0.95 of it",
			Samples: map[string][]float64{"ours": samples[p.name], "floor": samples[p.floor]}})
	}
	return nil
}

// throughput makes a path and returns the Gbit/s of one connection over it.
func (b *flowBench) throughput(ctx context.Context, p flowPath) (float64, error) {
	defer b.stopAgents()
	if err := errors.Join(b.clean("pa"), b.clean("pb")); err != nil {
		return 0, err
	}
	if err := p.make(ctx); err != nil {
		return 0, err
	}
	return b.flow(ctx)
}

// Nodes and pods of throughputs.
var flowNodes = []struct {
	node, addr, pod, podAddr, gateway string
	number                            int
}{
	{"pa", "10.99.0.21", "a", "10.152.0.10", "10.152.0.1", 6144},
	{"pb", "10.99.0.22", "b", "10.152.1.10", "10.152.1.1", 6145},
}

// makePods makes the two nodes on the switch, each with a pod.
func (b *flowBench) makePods() error {
	for _, n := range flowNodes {
		if err := b.makeNetns(b.netns(n.node)); err != nil {
			return err
		}
		if err := b.makeNetns(b.netns(n.pod)); err != nil {
			return err
		}
		if err := connect(b.netns(n.node), "eth0", netip.MustParsePrefix(n.addr+"/16"), b.netns("sw"), n.node); err != nil {
			return err
		}
		if err := connect(b.netns(n.pod), "eth0", netip.MustParsePrefix(n.podAddr+"/24"), b.netns(n.node), n.pod); err != nil {
			return err
		}

		err := errors.Join(
			platform.InNetns(platform.NetnsPath(b.netns("sw")), func() error {
				return errors.Join(platform.LinkUp(n.node), platform.JoinBridge(n.node, "sw0"))
			}),
			platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() error {
				return errors.Join(platform.SetAddress(n.pod, netip.MustParsePrefix(n.gateway+"/24")), platform.LinkUp(n.pod))
			}),
			platform.InNetns(platform.NetnsPath(b.netns(n.pod)), func() error {
				return errors.Join(platform.SetRoute(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr(n.gateway)), setMTU("eth0", 1450))
			}))
		if err != nil {
			return err
		}
	}
	return nil
}

// setMTU is for the calling thread's namespace. Pods have the MTU of VXLAN in every mode, so that only the path between the nodes differs.
func setMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(link, mtu)
}

// bareRoutes makes the routes of host-gateway by hand.
func (b *flowBench) bareRoutes(context.Context) error {
	for i, n := range flowNodes {
		other := flowNodes[1-i]
		err := platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() error {
			return platform.SetRoute(netip.MustParsePrefix(podRange(other.number)), netip.MustParseAddr(other.addr))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bareVXLAN makes a VXLAN device of the kernel by hand. It is deleted by clean, as it has the name of the agents'.
func (b *flowBench) bareVXLAN(context.Context) error {
	mac := func(i int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 9, byte(i)} }
	for i, n := range flowNodes {
		other := flowNodes[1-i]
		far := net.ParseIP(other.gateway).To4()
		far[3] = 0
		_, dst, err := net.ParseCIDR(podRange(other.number))
		if err != nil {
			return err
		}

		err = platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			dev := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "flannel.4096", MTU: 1450, HardwareAddr: mac(i)}, VxlanId: 4096, Port: 4789,
				VtepDevIndex: eth0.Attrs().Index, SrcAddr: net.ParseIP(n.addr)}
			if err := errors.Join(netlink.LinkAdd(dev), netlink.LinkSetUp(dev)); err != nil {
				return err
			}

			index := dev.Attrs().Index
			return errors.Join(
				netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: far, HardwareAddr: mac(1 - i)}),
				netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: 7, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: net.ParseIP(other.addr), HardwareAddr: mac(1 - i)}),
				netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: dst, Gw: far, Flags: int(netlink.FLAG_ONLINK)}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// agents starts ours on both nodes and waits until they have done everything.
func (b *flowBench) agents(ctx context.Context, mode string) error {
	if err := b.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "bgp.yaml"), []byte("fullMesh: true\nconnectRetry: 1s\n"), 0o600); err != nil {
		return err
	}
	for _, n := range flowNodes {
		if err := b.makeNode(ctx, n.node, n.addr, n.number, mode); err != nil {
			return err
		}
	}

	for _, n := range flowNodes {
		cmd, err := b.porthole(n.node, "porthole", mode)
		if err != nil {
			return err
		}
		b.running = append(b.running, cmd)
	}
	for _, n := range flowNodes {
		if err := b.ready(ctx, n.node, 0); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until the agent of a node has all its routes, at least that many.
func (b *flowBench) ready(ctx context.Context, host string, count int) error {
	return wait.For(ctx, 30*time.Second, "the agent of "+host+" to be ready", func(ctx context.Context) error {
		var status struct {
			Wanted, Present int
			Error           string
		}
		conn, err := b.dial(host, "127.0.0.1:10261")
		if err != nil {
			return err
		}
		defer conn.Close()

		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/status", nil)
		if err != nil {
			return err
		}
		if err := req.Write(conn); err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), req)
		if err != nil {
			return err
		}
		defer answer.Body.Close()

		if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
			return err
		}
		if status.Error != "" || status.Present < status.Wanted || status.Wanted < max(count, 1) {
			return fmt.Errorf("its status is %+v", status)
		}
		return nil
	})
}

// dial opens a TCP connection from a host.
func (b *flowBench) dial(host, addr string) (conn net.Conn, err error) {
	err = platform.InNetns(platform.NetnsPath(b.netns(host)), func() (err error) {
		conn, err = net.DialTimeout("tcp4", addr, 300*time.Millisecond)
		return err
	})
	return conn, err
}

// stopAgents ends what agents started.
func (b *flowBench) stopAgents() {
	for _, cmd := range b.running {
		end(cmd)
	}
	b.running = nil
}

// flow sends bytes from one pod to the other as soon as it is reached, and returns Gbit/s.
func (b *flowBench) flow(ctx context.Context) (rate float64, err error) {
	var server net.Listener
	err = platform.InNetns(platform.NetnsPath(b.netns("b")), func() (err error) {
		server, err = net.Listen("tcp4", flowNodes[1].podAddr+":5001")
		return err
	})
	if err != nil {
		return 0, err
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			if n, _ := io.Copy(io.Discard, io.LimitReader(c, flowBytes)); n == flowBytes {
				_, _ = c.Write([]byte{1}) // a client that has gone needs no answer
			}
			c.Close()
		}
	}()

	var conn net.Conn
	err = wait.For(ctx, 20*time.Second, "the other pod", func(ctx context.Context) (err error) {
		conn, err = b.dial("a", flowNodes[1].podAddr+":5001")
		return err
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	block := slices.Repeat([]byte{0}, 256<<10)
	begin := time.Now()
	for range flowBytes / len(block) {
		if _, err := conn.Write(block); err != nil {
			return 0, err
		}
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return 0, err
	}
	return round(flowBytes * 8 / time.Since(begin).Seconds() / 1e9), nil
}
