package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// The cluster of the group routes: an API server, one node with porthole routes, one with flanneld, and Node objects
// of as many others.
const (
	routesSmall, routesLarge = 500, 5000
	routesAdded              = 60                     // nodes added one after the other, each a sample
	routesApart              = 100 * time.Millisecond // one of them and the next
	routesIdle               = 60 * time.Second
	// The address of the API server is on the switch as well; nodes have 10.99.0.0/16.
	routesAPI                = "10.99.0.10"
	benchPods, benchServices = "10.128.0.0/9", "10.96.0.0/16"
	routesOurs, routesPeer   = 6000, 6001 // numbers of the pod ranges of the two nodes
)

// routesBench is that cluster.
// undo is run from its end when the group is over: processes before the namespaces in which they
// run.
type routesBench struct {
	o       options
	dir     string
	client  kubernetes.Interface
	control *exec.Cmd
	router  *exec.Cmd // of the mode bgp
	undo    []func()
}

// routesSide is one of the two nodes.
// cmd and routes are set when its agent is started.
type routesSide struct {
	name, addr string
	number     int // of its pod range
	cmd        *exec.Cmd
	routes     *routesSeen
}

// benchRoutes measures how soon a node has a route to one that is added, and what large clusters cost, beside flanneld.
// Parts run in a fixed order, whatever the order in the flag. Each part goes through all modes.
func benchRoutes(ctx context.Context, o options) (err error) {
	b := &routesBench{o: o}
	defer func() {
		for i := len(b.undo) - 1; i >= 0; i-- {
			b.undo[i]()
		}
	}()
	if err := b.setUp(ctx); err != nil {
		return err
	}

	if named(o.routes, "added") {
		for _, mode := range b.modes() {
			if err := b.atSize(ctx, mode, routesSmall, b.addNodes); err != nil {
				return fmt.Errorf("%s at %d nodes: %w", mode, routesSmall, err)
			}
		}
	}
	if named(o.routes, "large") {
		for _, mode := range b.modes() {
			if mode == "bgp" {
				continue // routes/bgp TestThousands measures that
			}
			if err := b.atSize(ctx, mode, routesLarge, nil); err != nil {
				return fmt.Errorf("%s at %d nodes: %w", mode, routesLarge, err)
			}
		}
	}
	if !named(o.routes, "throughput") && !named(o.routes, "loss") {
		return nil
	}

	// Throughput and loss have two nodes of their own beside those of the other parts.
	flows := &flowBench{routesBench: b}
	if err := flows.makePods(); err != nil {
		return err
	}
	if named(o.routes, "throughput") {
		if err := flows.throughputs(ctx); err != nil {
			return fmt.Errorf("throughput: %w", err)
		}
	}
	if named(o.routes, "loss") {
		for _, mode := range b.modes() {
			if err := flows.losses(ctx, mode); err != nil {
				return fmt.Errorf("lost packets of %s: %w", mode, err)
			}
		}
	}
	return nil
}

func (b *routesBench) modes() []string { return strings.Split(b.o.modes, ",") }

// netns gives names with the process's ID, so that several runs do not meet.
func (b *routesBench) netns(name string) string {
	return fmt.Sprintf("phbench-%d-%s", os.Getpid(), name)
}

// setUp makes the hosts on one switch and starts the control plane.
// What setUp makes is in undo as soon as it exists, and goes even if a later step fails.
func (b *routesBench) setUp(ctx context.Context) (err error) {
	if b.dir = b.o.logs; b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "routes-bench-"); err != nil {
			return err
		}
		b.undo = append(b.undo, func() { os.RemoveAll(b.dir) })
	}
	if err := b.makeHosts(map[string]string{"api": routesAPI, "ours": "10.99.0.11", "flan": "10.99.0.12"}); err != nil {
		return err
	}

	c := testkit.ControlPlane{Dir: filepath.Join(b.dir, "controlplane"), Address: routesAPI, Services: benchServices,
		Users:     []string{`admin,admin,admin,"system:masters"`},
		APIServer: []string{"--disable-admission-plugins=ServiceAccount", "--profiling=false"}}
	config, err := c.Write()
	if err != nil {
		return err
	}
	if b.control, err = b.start("api", "controlplane", nil, "bundle/kube", "controlplane", "--config",
		config); err != nil {
		return err
	}
	if b.client, err = c.Client(platform.NetnsPath(b.netns("api")), "admin"); err != nil {
		return err
	}
	return wait.For(ctx, 60*time.Second, "the API server", func(ctx context.Context) error {
		_, err := b.client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// makeHosts makes a network namespace for each name with that address on eth0, all on one switch.
func (b *routesBench) makeHosts(hosts map[string]string) error {
	sw := b.netns("sw")
	if err := b.makeNetns(sw); err != nil {
		return err
	}
	for name, addr := range hosts {
		if err := b.makeNetns(b.netns(name)); err != nil {
			return err
		}
		if err := connect(b.netns(name), "eth0", netip.MustParsePrefix(addr+"/16"), sw, name); err != nil {
			return err
		}
	}

	return platform.InNetns(platform.NetnsPath(sw), func() error {
		if err := platform.CreateBridge("sw0"); err != nil {
			return err
		}
		for name := range hosts {
			if err := errors.Join(platform.LinkUp(name), platform.JoinBridge(name, "sw0")); err != nil {
				return err
			}
		}
		// Frames on the bridge must not pass through iptables rules.
		return errors.Join(platform.LinkUp("sw0"),
			platform.SetSysctls(map[string]string{"net/bridge/bridge-nf-call-iptables": "0"}), answer())
	})
}

// answer makes the switch answer ARP and pings for the addresses of all simulated nodes, as nodes would.
// Nobody else would answer for nodes that are Node objects only.
func answer() error {
	if err := platform.SetAddress("sw0", netip.MustParsePrefix("10.99.0.1/16")); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	// Simulated nodes have addresses from 10.99.1.0 on (simAddr).
	for third := byte(1); third <= 1+routesLarge>>8; third++ {
		dst := &net.IPNet{IP: net.IPv4(10, 99, third, 0), Mask: net.CIDRMask(24, 32)}
		if err := netlink.RouteAdd(&netlink.Route{Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL,
			Scope: netlink.SCOPE_HOST, LinkIndex: lo.Attrs().Index, Dst: dst}); err != nil {
			return err
		}
	}
	return nil
}

// makeNetns makes a namespace that forwards, with its loopback up; undo deletes it.
func (b *routesBench) makeNetns(name string) error {
	if err := platform.CreateNetns(name); err != nil {
		return err
	}
	b.undo = append(b.undo, func() {
		if err := platform.DeleteNetns(name); err != nil {
			say("%v", err)
		}
	})
	return platform.InNetns(platform.NetnsPath(name), func() error {
		return errors.Join(platform.LinkUp("lo"), platform.SetSysctls(map[string]string{"net/ipv4/ip_forward": "1"}))
	})
}

// connect makes a veth from one namespace, with an address, to another.
// The end in the other namespace is named peer, and is left down.
func connect(from, iface string, addr netip.Prefix, to, peer string) error {
	return platform.InNetns(platform.NetnsPath(from), func() error {
		if err := platform.CreateVeth(iface, peer, platform.NetnsPath(to)); err != nil {
			return err
		}
		return errors.Join(platform.SetAddress(iface, addr), platform.LinkUp(iface))
	})
}

// start runs a program, of the folder bin if it has no path, in a host until the end of the group.
// Its output is appended to NAME.log. It has a process group of its own, so that an interrupt at
// the terminal does not reach it before the bench ends it.
func (b *routesBench) start(host, name string, env []string, program string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(b.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if !filepath.IsAbs(program) {
		program = filepath.Join(b.o.bin, program)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := platform.StartInNetns(platform.NetnsPath(b.netns(host)), cmd); err != nil {
		return nil, err
	}
	b.undo = append(b.undo, func() { end(cmd) })
	return cmd, nil
}

// end kills a process that may have ended.
func end(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// kubeconfig writes the file for agents. The token is that of a user who may do everything.
func (b *routesBench) kubeconfig() (string, error) {
	path := filepath.Join(b.dir, "kubeconfig")
	return path, testkit.WriteJSON(path, map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "c",
			"cluster": map[string]any{"server": "https://" + routesAPI + ":6443", "insecure-skip-tls-verify": true}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": "admin"}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
	})
}

// agent starts the agent of a node: porthole routes on "ours", the peer on "flan".
// The process is in s.cmd.
func (b *routesBench) agent(s *routesSide, mode string) (err error) {
	switch {
	case s.name == "ours":
		s.cmd, err = b.porthole(s.name, "porthole", mode)
	case mode == "bgp":
		s.cmd, err = b.birdPeer(s)
	default:
		s.cmd, err = b.flanneld(s, mode)
	}
	return err
}

// peerOf returns the name of the program that does the same in a mode.
func peerOf(mode string) string {
	if mode == "bgp" {
		return "BIRD"
	}
	return "flanneld"
}

// porthole starts our agent on a host.
func (b *routesBench) porthole(host, program, mode string) (*exec.Cmd, error) {
	kubeconfig, err := b.kubeconfig()
	if err != nil {
		return nil, err
	}
	args := []string{"routes", "--kubeconfig=" + kubeconfig, "--hostname-override=" + host, "--mode=" + mode,
		"--cluster-cidr=" + benchPods, "--service-cidr=" + benchServices,
		"--state-dir=" + filepath.Join(b.dir, "state-"+host)}
	if mode == "bgp" {
		args = append(args, "--bgp-config="+filepath.Join(b.dir, "bgp.yaml"))
	}
	return b.start(host, host, nil, program, args...)
}

// flanneld starts the peer with its own masquerading and forwarding rules off.
func (b *routesBench) flanneld(s *routesSide, mode string) (*exec.Cmd, error) {
	kubeconfig, err := b.kubeconfig()
	if err != nil {
		return nil, err
	}
	backend := map[string]any{"Type": "vxlan", "VNI": 4096, "Port": 4789}
	if mode == "host-gateway" {
		backend = map[string]any{"Type": "host-gw"}
	}
	conf := filepath.Join(b.dir, "net-conf.json")
	if err := testkit.WriteJSON(conf, map[string]any{"Network": benchPods, "Backend": backend}); err != nil {
		return nil, err
	}
	return b.start(s.name, s.name, []string{"NODE_NAME=" + s.name, "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"},
		"bundle/flanneld",
		"-kube-subnet-mgr", "-kubeconfig-file="+kubeconfig, "-net-config-path="+conf, "-iface=eth0", "-ip-masq=false",
		"-iptables-forward-rules=false", "-subnet-file="+filepath.Join(b.dir, "subnet.env"), "-healthz-port=0")
}

// podRange is that of the node with that number.
// The low byte of the number is the third octet; what is above is added to the second, so that 6144
// is 10.152.0.0/24.
func podRange(number int) string { return fmt.Sprintf("10.%d.%d.0/24", 128+number>>8, number&255) }

// makeNode makes a Node object with flannel's annotations.
func (b *routesBench) makeNode(ctx context.Context, name, addr string, number int, mode string) error {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: announcement(mode, addr, number)},
		Spec:       corev1.NodeSpec{PodCIDR: podRange(number), PodCIDRs: []string{podRange(number)}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}},
	}
	_, err := b.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// announcement is what flanneld of a node would write: with it a Node object without an agent looks
// like a node with one.
func announcement(mode, addr string, number int) map[string]string {
	kind := "vxlan"
	data := fmt.Sprintf(`{"VNI":4096,"VtepMAC":"02:00:00:00:%02x:%02x"}`, number>>8, number&255)
	if mode == "host-gateway" {
		kind, data = "host-gw", "null"
	}
	const prefix = "flannel.alpha.coreos.com/"
	return map[string]string{prefix + "backend-type": kind, prefix + "backend-data": data, prefix + "public-ip": addr,
		prefix + "kube-subnet-manager": "true"}
}

// fill replaces the Node objects: the two nodes, and others up to that many.
// Eight callers make the others; only the first error is returned.
func (b *routesBench) fill(ctx context.Context, mode string, sides []*routesSide, count int) error {
	if err := b.client.CoreV1().Nodes().
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	for _, s := range sides {
		if err := b.makeNode(ctx, s.name, s.addr, s.number, mode); err != nil {
			return err
		}
	}

	numbers := make(chan int)
	errs := make(chan error, 8)
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for i := range numbers {
				if err := b.makeNode(ctx, fmt.Sprintf("sim-%04d", i), simAddr(i), i, mode); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	makers.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// simAddr is the address of a simulated node, beside those of the hosts in 10.99.0.0/24.
func simAddr(number int) string { return fmt.Sprintf("10.99.%d.%d", 1+number>>8, number&255) }

// routesSeen are the routes that a host got, with the time of each.
type routesSeen struct {
	mu   sync.Mutex
	at   map[string]time.Time
	done chan struct{}
}

// watchRoutes begins to follow a host's routes.
// It begins before the agent starts. The buffers hold thousands of routes that come within a
// moment.
func (b *routesBench) watchRoutes(host string) (*routesSeen, error) {
	r := &routesSeen{at: map[string]time.Time{}, done: make(chan struct{})}
	updates := make(chan netlink.RouteUpdate, 20000)
	err := platform.InNetns(platform.NetnsPath(b.netns(host)), func() error {
		return netlink.RouteSubscribeWithOptions(updates, r.done,
			netlink.RouteSubscribeOptions{ReceiveBufferSize: 32 << 20, ReceiveBufferForceSize: true})
	})
	if err != nil {
		return nil, err
	}
	go func() {
		for u := range updates {
			// Only routes with a gateway count: those of the links themselves have none. The first
			// time counts when a route is replaced.
			if u.Type == syscall.RTM_NEWROUTE && u.Dst != nil && u.Gw != nil {
				r.mu.Lock()
				if _, known := r.at[u.Dst.String()]; !known {
					r.at[u.Dst.String()] = time.Now()
				}
				r.mu.Unlock()
			}
		}
	}()
	return r, nil
}

// last returns how many routes there are, and when the last one came.
// The count includes routes that were removed again.
func (r *routesSeen) last() (count int, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.at {
		if t.After(at) {
			at = t
		}
	}
	return len(r.at), at
}

// of tells when the route to a range came; false: it has not yet.
func (r *routesSeen) of(dst string) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.at[dst]
	return t, ok
}

// memoryAndCPU returns a process's resident memory in MB and its processor time in seconds.
func memoryAndCPU(pid int) (mb, cpu float64, err error) {
	if mb, err = statusMB(pid, "VmRSS:"); err != nil {
		return 0, 0, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}

	// The name of the program, in parentheses, may hold spaces; the fields after it begin with the
	// state.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("/proc/%d/stat is %q", pid, stat)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	const ticks = 100 // USER_HZ, the same on every Linux
	return mb, (user + system) / ticks, errors.Join(err, err2)
}

// fileMemory returns how much of a process's memory are pages of files, in MB.
func fileMemory(pid int) (float64, error) { return statusMB(pid, "RssFile:") }

// statusMB returns a line of /proc/PID/status in MB.
func statusMB(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no line %s", pid, field)
}
