package ovn

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/emulator/openvswitch"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/ovn/controller"
	"porthole.dev/porthole/routes/keep"
	routes "porthole.dev/porthole/routes/ovn"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

var (
	pods     = netip.MustParsePrefix("10.244.0.0/16")
	services = netip.MustParsePrefix("10.96.0.0/16")
	master   = netip.MustParseAddr("10.99.0.10")
)

// world is a cluster: a switch, a host with OVN's databases and our controller, and nodes.
type world struct {
	t       *testing.T
	dir     string
	api     *api
	rack    *netspace.Space // the switch
	master  *netspace.Space // the host of the databases and of our controller
	central openvswitch.Central
	nodes   map[string]*node
	daemons map[string]*daemon

	controller     *controller.Controller
	stopController func()
	encap          string // kinds of tunnels of the next agents
	streams        int    // that were started
}

// node is a host with Open vSwitch and our agent.
type node struct {
	name  string
	addr  netip.Addr
	space *netspace.Space
	host  openvswitch.Host
	agent interface {
		Sync(context.Context)
		Status() keep.Status
	}
	mode   *routes.Mode
	writes atomic.Int64 // changes that the agent made
}

// newWorld starts the databases and the controller.
func newWorld(t *testing.T) *world {
	t.Helper()
	if err := openvswitch.Check(); err != nil {
		t.Skip(err)
	}
	w := &world{t: t, dir: t.TempDir(), rack: netspace.New(t, "rack"), nodes: map[string]*node{},
		daemons: map[string]*daemon{}, encap: "geneve"}
	w.rack.Do(func() error {
		if err := platform.CreateBridge("sw0"); err != nil {
			return err
		}
		// a switch does not look into packets
		if err := platform.SetSysctls(map[string]string{"net/bridge/bridge-nf-call-iptables": "0"}); err != nil {
			return err
		}
		return platform.LinkUp("sw0")
	})
	w.central = openvswitch.Central{Dir: filepath.Join(w.dir, "central"), Listen: master}
	w.must(w.central.Prepare(t.Context()))
	w.master = w.host("master", master)
	for _, d := range w.central.Daemons() {
		w.start("master", w.master, d)
	}

	w.api = newAPI()
	// The controller reaches the databases by their Unix sockets, as it does beside them.
	w.controller = controller.New(controller.Options{NB: "unix:" + w.central.NB(), SB: "unix:" + w.central.SB(),
		Cluster: w.api})
	w.api.changed = w.controller.Changed
	w.stopController = w.background(w.controller.Run)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// background runs f until stop or the end of the test.
func (w *world) background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	stop = func() { cancel(); done.Wait() }
	w.t.Cleanup(stop)
	return stop
}

// host makes a namespace with a card eth0 at the switch.
func (w *world) host(name string, addr netip.Addr) *netspace.Space {
	w.t.Helper()
	space := netspace.New(w.t, name)
	space.Connect("eth0", w.rack, name)
	w.rack.Do(func() error { return platform.JoinBridge(name, "sw0") })
	space.Do(func() error {
		if err := platform.StopChecksumOffload("eth0"); err != nil { // the other end may be a program
			return err
		}
		return platform.SetSysctls(map[string]string{"net/ipv4/ip_forward": "1"})
	})
	space.Address("eth0", netip.PrefixFrom(addr, 24).String())
	return space
}

// daemon is a process that runs for the test.
type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   *os.File
}

// start runs a daemon of a host and waits for its socket.
func (w *world) start(host string, space *netspace.Space, d openvswitch.Daemon) *daemon {
	w.t.Helper()
	if d.After != "" {
		w.awaitSocket(d.After)
	}
	out, err := os.OpenFile(filepath.Join(w.dir, host+"-"+d.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	w.must(err)
	cmd := exec.Command(d.Path, d.Args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), d.Env...), out, out
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	w.must(platform.StartInNetns(space.Path, cmd))
	p := &daemon{cmd: cmd, ended: make(chan struct{}), log: out}
	go func() { cmd.Wait(); close(p.ended) }()
	w.t.Cleanup(p.kill)
	w.daemons[host+"/"+d.Name] = p
	if d.Socket != "" {
		w.awaitSocket(d.Socket)
	}
	return p
}

func (d *daemon) kill() {
	d.cmd.Process.Kill()
	<-d.ended
	d.log.Close()
}

func (w *world) awaitSocket(path string) {
	w.t.Helper()
	wait.NoError(w.t, 10*time.Second, "socket "+path, func() error {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// addNode makes a node with a range.
func (w *world) addNode(name string, addr, subnet string) *node {
	w.t.Helper()
	n := &node{name: name, addr: netip.MustParseAddr(addr)}
	n.space = w.host(name, n.addr)
	n.host = openvswitch.Host{Dir: filepath.Join(w.dir, name)}
	w.must(n.host.Prepare(w.t.Context()))
	daemons := n.host.Daemons()
	for _, d := range daemons {
		w.start(name, n.space, d)
	}

	w.nodes[name] = n
	w.api.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelOSStable: "linux"}}, Spec: corev1.NodeSpec{PodCIDR: subnet}})
	w.startAgent(n)
	w.serve(n)
	return n
}

// startAgent runs the mode of a node in its namespace.
func (w *world) startAgent(n *node) {
	w.startAgentOn(n, func(h host) host { return h })
}

// startAgentOn is startAgent with something between the agent and the host.
func (w *world) startAgentOn(n *node, between func(host) host) {
	o := routes.Options{Node: n.name, Addr: n.addr, Cluster: pods, Services: services, Remote: w.central.SBAddress(),
		Database:  "unix:" + n.host.Socket(),
		EncapType: w.encap, Datapath: "netdev", Uplink: "eth0"}
	host, err := routes.NewHost(o)
	w.must(err)
	n.space.Do(func() error { _, err := podnet.NAT{}.Ensure(routes.Outbound(o)); return err })
	n.writes.Store(0)
	n.mode = routes.New(o, between(counted{host, &n.writes}))
	n.agent = keep.New(n.mode, keep.Options{Nodes: w.tableNodes})
}

// host is what an agent observes and changes.
type host interface {
	Observe(context.Context) (routes.Seen, error)
	Apply(context.Context, routes.Change) error
	Watch(context.Context, func()) error
}

// counted counts the changes.
type counted struct {
	host
	writes *atomic.Int64
}

func (c counted) Apply(ctx context.Context, change routes.Change) error {
	c.writes.Add(1)
	return c.host.Apply(ctx, change)
}

func (w *world) tableNodes() ([]table.Node, bool) {
	var list []table.Node
	for _, n := range w.api.Nodes() {
		t := table.Node{Name: n.Name, PodCIDRs: []netip.Prefix{netip.MustParsePrefix(n.Spec.PodCIDR)}}
		if known := w.nodes[n.Name]; known != nil {
			t.Addr = known.addr
		}
		list = append(list, t)
	}
	return list, true
}

// sync makes passes of all agents until everything is there.
func (w *world) sync() {
	w.t.Helper()
	wait.NoError(w.t, 30*time.Second, "the agents", func() error {
		w.syncAll()
		for _, n := range w.nodes {
			if s := n.agent.Status(); !s.Complete() {
				return fmt.Errorf("node %s: %+v; controller: %+v", n.name, s, w.controller.Status())
			}
		}
		return nil
	})
}

// syncAll makes one pass of each agent.
func (w *world) syncAll() {
	for _, n := range w.nodes {
		n.space.Do(func() error { n.agent.Sync(w.t.Context()); return nil })
	}
}

// serve answers the plugin of a node.
func (w *world) serve(n *node) {
	var listener net.Listener
	n.space.Do(func() (err error) { listener, err = net.Listen("tcp", ovnet.AgentAddress); return err })
	handler := ovnet.Handler(func(_ context.Context, namespace, name string) (ovnet.Answer, error) {
		p := w.api.pod(namespace, name)
		if p == nil {
			return ovnet.Answer{}, fmt.Errorf("no pod %s/%s", namespace, name)
		}
		return ovnet.Answer{UID: string(p.UID), Annotation: p.Annotations[ovnet.Annotation], MTU: n.mode.MTU()}, nil
	}, func(string) {})
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	w.t.Cleanup(func() { server.Close() })
}

// pod is a pod that runs.
type pod struct {
	*corev1.Pod
	space *netspace.Space
	addr  netip.Addr
	conf  string
}

// seedConf is the configuration of the Kubernetes 1.9 guide with the subnet filled in, and where this node's database
// is.
const seedConf = `{
    "name": "net",
    "type": "ovn_cni.exe",
    "bridge": "br-int",
    "isGateway": "true",
    "ipMasq": "false",
    "ipam": {
         "type": "host-local",
         "subnet": "%s"
         },
    "ovsdb": "unix:%s"
}`

// addPod makes a pod on a node through the API, the controller and the plugin.
func (w *world) addPod(name, node string) *pod {
	w.t.Helper()
	p := w.tryPod(name, node)
	out, err := w.cni("ADD", p)
	if err != nil {
		w.t.Fatalf("ADD of %s: %v: %s", name, err, out)
	}
	var result struct {
		IP4 struct{ IP string }
	}
	if err := json.Unmarshal(out, &result); err != nil {
		w.t.Fatalf("result of ADD: %v: %s", err, out)
	}
	prefix, err := netip.ParsePrefix(result.IP4.IP)
	w.must(err)
	p.addr = prefix.Addr()
	running := w.api.pod(p.Namespace, p.Name).DeepCopy()
	running.Status.PodIP = p.addr.String() // as the kubelet reports it
	w.api.put(running)
	return p
}

// tryPod makes a pod that has no interface yet.
func (w *world) tryPod(name, node string) *pod {
	w.t.Helper()
	n := w.nodes[node]
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		UID: types.UID(fmt.Sprintf("uid-%s-%d", name, w.api.next()))}, Spec: corev1.PodSpec{NodeName: node}}
	w.api.put(object)
	subnet := ""
	for _, o := range w.api.Nodes() {
		if o.Name == node {
			subnet = o.Spec.PodCIDR
		}
	}
	return &pod{Pod: object, space: netspace.New(w.t, name), conf: fmt.Sprintf(seedConf, subnet, n.host.Socket())}
}

// cni calls the plugin for a pod as a runtime does.
func (w *world) cni(verb string, p *pod) ([]byte, error) {
	w.t.Helper()
	program, err := filepath.Abs("../../bin/ovn_cni")
	w.must(err)
	if _, err := os.Stat(program); err != nil {
		w.t.Skip("bin/ovn_cni is not built (`make build`)")
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+verb, "CNI_CONTAINERID=sandbox-"+string(p.UID),
		"CNI_NETNS="+p.space.Path, "CNI_IFNAME=eth0", "CNI_PATH=/none",
		fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=%s", p.Namespace, p.Name,
			p.UID))
	cmd.Stdin = strings.NewReader(p.conf)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := platform.StartInNetns(w.nodes[p.Spec.NodeName].space.Path, cmd); err != nil {
		return nil, err
	}
	err = cmd.Wait()
	return out.Bytes(), err
}

// api is the API server's objects in memory. It implements what the controller needs.
type api struct {
	mu      sync.Mutex
	objects map[string]metav1.Object
	changed func()
	count   int
	warned  []string
}

func newAPI() *api { return &api{objects: map[string]metav1.Object{}, changed: func() {}} }

func (a *api) next() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	return a.count
}

func keyOf(o metav1.Object) string { return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName()) }

func (a *api) put(o metav1.Object) {
	a.mu.Lock()
	a.objects[keyOf(o)] = o
	a.mu.Unlock()
	a.changed()
}

func (a *api) remove(o metav1.Object) {
	a.mu.Lock()
	delete(a.objects, keyOf(o))
	a.mu.Unlock()
	a.changed()
}

func (a *api) pod(namespace, name string) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, _ := a.objects[keyOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})].(*corev1.Pod)
	return p
}

func listed[T metav1.Object](a *api) []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []T
	for _, o := range a.objects {
		if o, ok := o.(T); ok {
			list = append(list, o)
		}
	}
	return list
}

func (a *api) Synced() bool                         { return true }
func (a *api) Nodes() []*corev1.Node                { return listed[*corev1.Node](a) }
func (a *api) Pods() []*corev1.Pod                  { return listed[*corev1.Pod](a) }
func (a *api) Services() []*corev1.Service          { return listed[*corev1.Service](a) }
func (a *api) Slices() []*discoveryv1.EndpointSlice { return listed[*discoveryv1.EndpointSlice](a) }

func (a *api) AnnotatePod(_ context.Context, pod *corev1.Pod, key, value string) error {
	changed := pod.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[key] = value
	a.put(changed)
	return nil
}

func (a *api) Warn(kind string, about metav1.Object, reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warned = append(a.warned, fmt.Sprintf("%s %s %s: %s", kind, about.GetName(), reason, message))
}

func (a *api) warnings() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.warned, "\n")
}

// geneve is a frame of a tunnel as the switch between the nodes sees it.
type geneve struct {
	from, to netip.Addr
	inner    []byte // from the inner Ethernet header on
}

// capture collects the Geneve frames that pass the rack's switch until stop.
func (w *world) capture() (stop func() []geneve) {
	w.t.Helper()
	fd := -1
	w.rack.Do(func() (err error) {
		link, err := net.InterfaceByName("sw0")
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(be16(unix.ETH_P_ALL))); err != nil {
			return err
		}
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: be16(unix.ETH_P_ALL), Ifindex: link.Index})
		if err == nil {
			err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
				&unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_PROMISC})
		}
		if err == nil {
			err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
		}
		return err
	})

	ending, ended := make(chan struct{}), make(chan struct{})
	var frames []geneve
	go func() {
		defer close(ended)
		buffer := make([]byte, 65536)
		for {
			n, _, err := unix.Recvfrom(fd, buffer, 0)
			if err == nil {
				if g, ok := parseGeneve(buffer[:n]); ok {
					frames = append(frames, g)
				}
				continue
			}
			select {
			case <-ending:
				return
			default:
			}
		}
	}()
	return func() []geneve { close(ending); <-ended; unix.Close(fd); return frames }
}

func be16(v uint16) uint16 { return v<<8 | v>>8 }

// parseGeneve reads a frame: Ethernet, IPv4, UDP to port 6081, Geneve (RFC 8926).
func parseGeneve(frame []byte) (g geneve, ok bool) {
	if len(frame) < 14+20+8+8 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 || frame[14+9] != 17 {
		return g, false
	}
	ip := frame[14:]
	udp := ip[int(ip[0]&15)*4:]
	if len(udp) < 16 || binary.BigEndian.Uint16(udp[2:]) != 6081 {
		return g, false
	}
	header := udp[8:]
	options := int(header[0]&0x3f) * 4
	if len(header) < 8+options {
		return g, false
	}
	g.from, g.to = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	g.inner = bytes.Clone(header[8+options:])
	return g, true
}
