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
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// What throughputs does.
const (
	flowRounds = 60
	flowBytes  = 256 << 20 // of one connection: about a tenth of a second
)

// flowBench has two nodes more, each with a pod.
// The nodes are those of flowNodes.
type flowBench struct {
	*routesBench
	running []*exec.Cmd // agents of the nodes
}

// flowPath is a way between the two pods. All of one mode exist at the same time, over the same veths, and use makes
// the nodes take one.
type flowPath struct {
	name string
	use  func() error
}

// throughputs measures TCP connections between pods on two nodes for each mode: over what our agents made, and over
// routes or a VXLAN device that are made by hand. Throughput of one path differs by a half from minute to minute on a
// virtual machine. Therefore connections are short and take turns, and each is compared with those of its own round
// only. The agents are stopped meanwhile (SIGSTOP): they would repair what the bench changes, and what they cost is
// measured elsewhere.
func (b *flowBench) throughputs(ctx context.Context) error {
	for _, mode := range b.modes() {
		if err := b.throughput(ctx, mode); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

// throughput measures one mode.
// Agents make their routes first; from then on only the bench changes what the nodes have.
func (b *flowBench) throughput(ctx context.Context, mode string) error {
	defer b.stopAgents()
	if err := errors.Join(b.clean("pa"), b.clean("pb")); err != nil {
		return err
	}
	if err := b.agents(ctx, mode); err != nil {
		return err
	}
	for _, cmd := range b.running {
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
	}
	paths, err := b.paths(mode)
	if err != nil {
		return err
	}

	samples := map[string][]float64{}
	for round := range flowRounds {
		for i := range paths { // each path is the first of a round as often as the others
			p := paths[(i+round)%len(paths)]
			if err := p.use(); err != nil {
				return fmt.Errorf("taking the path %s: %w", p.name, err)
			}
			rate, err := b.flow(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			samples[p.name] = append(samples[p.name], rate)
		}
	}
	printFlows(mode, samples)
	return nil
}

// Names of paths.
const (
	flowOurs    = "ours"
	flowHand    = "by hand"
	flowAgain   = "by hand, again" // the same path: what differs is noise
	flowTracked = "by hand, with connections tracked"
)

// printFlows prints the medians of the ratios of ours to the others in the same round.
// A ratio compares two samples of one round, so that what the machine did in that minute is in
// both.
func printFlows(mode string, samples map[string][]float64) {
	ratio := func(path, floor string) (ratios []float64) {
		for i, rate := range samples[path] {
			ratios = append(ratios, round(rate/samples[floor][i]))
		}
		return ratios
	}
	for _, f := range []struct{ figure, path, floor, note string }{
		{"", flowOurs, flowHand, "at least 0.95 of what is made by hand, without outbound NAT"},
		{".tracked", flowOurs, flowTracked,
			"at least 0.95 of what is made by hand, with the same outbound NAT, for which the kernel tracks connections"},
		{".noise", flowAgain, flowHand, "the same path twice: how exact the figures are"},
	} {
		ratios := ratio(f.path, f.floor)
		middle := median(ratios)
		good := middle >= 0.95
		print(figure{Name: "routes." + mode + ".throughput" + f.figure, Unit: "Gbit/s", Ours: median(samples[f.path]),
			Floor: median(samples[f.floor]), OfFloor: middle, OK: &good,
			Note: fmt.Sprintf(
				"pod to pod across nodes, one TCP connection; %s; median of %d ratios, half of them from %.2f to %.2f",
				f.note, len(ratios),
				percentile(ratios, 0.25), percentile(ratios, 0.75)),
			Samples: map[string][]float64{"ours": samples[f.path], "floor": samples[f.floor]}})
	}
}

// paths returns the ways between the pods, of which the agents of a mode have made the first, and makes those by hand.
func (b *flowBench) paths(mode string) ([]flowPath, error) {
	var ours, hand [2]netlink.Route
	var rules [2]string // that the agents made
	// Rules and routes of the agents are kept, so that each path can be put in place again.
	for i, n := range flowNodes {
		var err error
		if rules[i], err = b.nft(n.node, "", "list", "ruleset"); err != nil {
			return nil, err
		}
		if !strings.Contains(rules[i], "masquerade") {
			return nil, fmt.Errorf("node %s has no outbound NAT: %s", n.node, rules[i])
		}
		err = platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() (err error) {
			if ours[i], err = podRoute(flowNodes[1-i].number); err != nil {
				return err
			}
			hand[i], err = byHand(mode, i)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.node, err)
		}
	}

	// take puts rules and routes in place on both nodes. Without rules the kernel does not track
	// connections.
	take := func(routes [2]netlink.Route, tracked bool) func() error {
		return func() error {
			for i, n := range flowNodes {
				text := "flush ruleset\n"
				if tracked {
					text += rules[i]
				}
				if _, err := b.nft(n.node, text, "-f", "-"); err != nil {
					return err
				}
				if err := platform.InNetns(platform.NetnsPath(b.netns(n.node)),
					func() error { return takeRoute(routes[i]) }); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []flowPath{{flowOurs, take(ours, true)}, {flowHand, take(hand, false)}, {flowTracked, take(hand, true)},
		{flowAgain, take(hand, false)}}, nil
}

// podRoute returns the route to the pod range of a node in the calling thread's namespace.
// It fails if there is none.
func podRoute(number int) (netlink.Route, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netlink.Route{}, err
	}
	for _, r := range routes {
		if r.Dst != nil && r.Dst.String() == podRange(number) {
			return r, nil
		}
	}
	return netlink.Route{}, fmt.Errorf("there is no route to %s", podRange(number))
}

// takeRoute replaces whatever route there is to the same pod range.
// Several routes to one range can exist, with other metrics; all are deleted first.
func takeRoute(r netlink.Route) error {
	for {
		err := netlink.RouteDel(&netlink.Route{Dst: r.Dst})
		if errors.Is(err, unix.ESRCH) {
			return netlink.RouteAdd(&r)
		}
		if err != nil {
			return err
		}
	}
}

// nft runs the program of that name on a host with an input, and returns what it prints.
// The program is the one of the machine; what it prints on standard error is in the error.
func (b *flowBench) nft(host, input string, args ...string) (string, error) {
	cmd := exec.Command("nft", args...)
	var out, problems strings.Builder
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout = &out
	cmd.Stderr = &problems
	err := platform.StartInNetns(platform.NetnsPath(b.netns(host)), cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

// Nodes and pods of throughputs.
// The number is that of the pod range. The gateway is the node's address on the pod's link.
var flowNodes = []struct {
	node, addr, pod, podAddr, gateway string
	number                            int
}{
	{"pa", "10.99.0.21", "a", "10.152.0.10", "10.152.0.1", 6144},
	{"pb", "10.99.0.22", "b", "10.152.1.10", "10.152.1.1", 6145},
}

// makePods makes the two nodes on the switch, each with a pod.
// Each pod is a namespace with one veth to its node; there is no bridge on the nodes.
func (b *flowBench) makePods() error {
	for _, n := range flowNodes {
		if err := b.makeNetns(b.netns(n.node)); err != nil {
			return err
		}
		if err := b.makeNetns(b.netns(n.pod)); err != nil {
			return err
		}
		if err := connect(b.netns(n.node), "eth0", netip.MustParsePrefix(n.addr+"/16"), b.netns("sw"),
			n.node); err != nil {
			return err
		}
		if err := connect(b.netns(n.pod), "eth0", netip.MustParsePrefix(n.podAddr+"/24"), b.netns(n.node),
			n.pod); err != nil {
			return err
		}

		err := errors.Join(
			platform.InNetns(platform.NetnsPath(b.netns("sw")), func() error {
				return errors.Join(platform.LinkUp(n.node), platform.JoinBridge(n.node, "sw0"))
			}),
			platform.InNetns(platform.NetnsPath(b.netns(n.node)), func() error {
				return errors.Join(platform.SetAddress(n.pod, netip.MustParsePrefix(n.gateway+"/24")),
					platform.LinkUp(n.pod))
			}),
			platform.InNetns(platform.NetnsPath(b.netns(n.pod)), func() error {
				return errors.Join(platform.SetRoute(netip.MustParsePrefix("0.0.0.0/0"),
					netip.MustParseAddr(n.gateway)), setMTU("eth0", 1450))
			}))
		if err != nil {
			return err
		}
	}
	return nil
}

// setMTU is for the calling thread's namespace. Pods have the MTU of VXLAN in every mode, so that only the path
// between the nodes differs.
func setMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(link, mtu)
}

// handDevice is the VXLAN device that is made by hand.
const handDevice = "byhand.4097"

// byHand returns the route to the other node's pods as a person would make it for a mode, in the calling thread's
// namespace: that of a node by its index. For vxlan it makes a device beside the agent's, with another VNI.
func byHand(mode string, i int) (netlink.Route, error) {
	other := flowNodes[1-i]
	_, dst, err := net.ParseCIDR(podRange(other.number))
	if err != nil || mode != "vxlan" {
		return netlink.Route{Dst: dst, Gw: net.ParseIP(other.addr)}, err
	}

	// MAC addresses follow from the index, so that each node knows that of the other.
	mac := func(i int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 9, byte(i)} }
	// The next hop is the first address of the other's pod range, as flannel has it: it is on no
	// link, and only its entry in the neighbour table says where it is.
	far := net.ParseIP(other.gateway).To4()
	far[3] = 0
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		return netlink.Route{}, err
	}
	dev := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: handDevice, MTU: 1450, HardwareAddr: mac(i)},
		VxlanId: 4097, Port: 4789,
		VtepDevIndex: eth0.Attrs().Index, SrcAddr: net.ParseIP(flowNodes[i].addr)}
	if err := errors.Join(netlink.LinkAdd(dev), netlink.LinkSetUp(dev)); err != nil {
		return netlink.Route{}, err
	}

	index := dev.Attrs().Index
	// Two entries lead to the other node: the MAC of the next hop, and the node behind that MAC.
	return netlink.Route{LinkIndex: index, Dst: dst, Gw: far, Flags: int(netlink.FLAG_ONLINK)}, errors.Join(
		netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
			IP: far, HardwareAddr: mac(1 - i)}),
		netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT,
			Flags: netlink.NTF_SELF, IP: net.ParseIP(other.addr), HardwareAddr: mac(1 - i)}))
}

// agents starts ours on both nodes and waits until they have done everything.
// All Node objects are replaced by those of the two nodes.
func (b *flowBench) agents(ctx context.Context, mode string) error {
	if err := b.client.CoreV1().Nodes().
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "bgp.yaml"), []byte("fullMesh: true\nconnectRetry: 1s\n"),
		0o600); err != nil {
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
// It asks the agent's own status, from within the host's namespace.
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
// Agents that were stopped by SIGSTOP end as well: the signal is SIGKILL.
func (b *flowBench) stopAgents() {
	for _, cmd := range b.running {
		end(cmd)
	}
	b.running = nil
}

// flow sends bytes from one pod to the other as soon as it is reached, and returns Gbit/s. The sender has the first
// processor and the receiver the second: where the scheduler puts them makes a difference of a third otherwise. Both
// go before other programs of the machine for the tenth of a second that it takes.
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
	// The receiver ends only when its listener is closed: the deferred Close below runs before the
	// Wait.
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer server.Close()
	receiving.Go(func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			if _, err := transfer(c, 1, unix.Read); err == nil {
				_, _ = c.Write([]byte{1}) // a client that has gone needs no answer
			}
			c.Close()
		}
	})

	var conn net.Conn
	err = wait.For(ctx, 20*time.Second, "the other pod", func(ctx context.Context) (err error) {
		conn, err = b.dial("a", flowNodes[1].podAddr+":5001")
		return err
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	// The time begins with the first byte, and ends when the receiver has all and has answered.
	begin, err := transfer(conn, 0, unix.Write)
	if err != nil {
		return 0, err
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return 0, err
	}
	return round(flowBytes * 8 / time.Since(begin).Seconds() / 1e9), nil
}

// flowBlock is how much is written or read at once: with little ones system calls would take most of the time.
const flowBlock = 256 << 10

// transfer reads or writes flowBytes with blocking calls on one processor, and returns when it began.
func transfer(c net.Conn, processor int, call func(int, []byte) (int, error)) (begin time.Time, err error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return begin, fmt.Errorf("%T is no TCP connection", c)
	}
	file, err := tcp.File()
	if err != nil {
		return begin, err
	}
	defer file.Close()

	// A goroutine of its own, because the thread that it locks is given up afterwards.
	done := make(chan error, 1)
	begin = time.Now()
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its place
		var one unix.CPUSet
		one.Set(processor % runtime.NumCPU())
		done <- errors.Join(unix.SchedSetaffinity(0, &one), unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20),
			transferAll(int(file.Fd()), call))
	}()
	return begin, <-done
}

// transferAll makes the descriptor blocking for the time of the transfer and calls it without Go's
// poller.
func transferAll(fd int, call func(int, []byte) (int, error)) error {
	if err := unix.SetNonblock(fd, false); err != nil {
		return err
	}
	defer func() { _ = unix.SetNonblock(fd, true) }() // the connection is the same open file
	block := make([]byte, flowBlock)
	for left := flowBytes; left > 0; {
		n, err := call(fd, block[:min(left, len(block))])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			left -= n
		}
	}
	return nil
}
