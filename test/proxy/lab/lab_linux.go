package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

// Addresses of every Lab; they exist in its own namespaces only. Host or node n (from 1) has 10.98.0.(10+n) and
// fd98::(10+n); its pods have 10.244.n.0/24 and fd44:0:0:n::/64.
var (
	Underlay      = netip.MustParsePrefix("10.98.0.0/24")
	Underlay6     = netip.MustParsePrefix("fd98::/64")
	PodRange      = netip.MustParsePrefix("10.244.0.0/16")
	PodRange6     = netip.MustParsePrefix("fd44::/48")
	ServiceRange  = netip.MustParsePrefix("10.96.0.0/16")
	ServiceRange6 = netip.MustParsePrefix("fd00:10:96::/112")
	// OutsideAddr is that of the outside client (RFC 5737, TEST-NET-3).
	OutsideAddr  = netip.MustParseAddr("203.0.113.1")
	OutsideAddr6 = netip.MustParseAddr("2001:db8:113::1") // RFC 3849

	routerAddr     = netip.MustParseAddr("10.98.0.1")
	routerAddr6    = netip.MustParseAddr("fd98::1")
	routerOutside  = netip.MustParseAddr("203.0.113.254")
	routerOutside6 = netip.MustParseAddr("2001:db8:113::fe")
)

// Options of New.
type Options struct {
	// Bin is the folder of the built programs (bundle/, windows/, windows/dll/); required.
	Bin string
	// Prefix begins the Lab's name; a few letters, required.
	Prefix string
	// NoAPI: no control plane runs, and no proxy can.
	NoAPI bool
	// ControlPlane, if not nil, is the Lab whose API server this one uses too. So two Labs with the same addresses can
	// serve the same objects; nodes that have the same name share a Node object.
	ControlPlane *Lab
}

// Lab is a switch, an API server and an outside client, to which hosts and nodes are joined. Its methods may be called
// from several goroutines.
type Lab struct {
	// Name begins the names of all that the Lab makes on the machine; Dir holds all state and logs.
	Name, Dir string
	// Client is an administrator's.
	Client kubernetes.Interface
	// Outside is the client that is no part of the cluster.
	Outside Place

	o       Options
	control *testkit.Process

	mu      sync.Mutex
	members []*member
	hosts   []*Host
	procs   []*testkit.Process // on nodes
	spaces  []string           // namespaces made, by name
}

// member is what is joined to the switch.
type member struct {
	name        string
	number      int
	netns       string
	addr, addr6 netip.Addr
	pods, pods6 netip.Prefix
}

// New starts a Lab and returns when its API server answers, after a few seconds. Close it; one that could not be
// started has removed itself.
func New(ctx context.Context, o Options) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a lab needs root")
	}
	bin, err := filepath.Abs(o.Bin)
	if err == nil {
		o.Bin, err = filepath.EvalSymlinks(bin)
	}
	if err != nil {
		return nil, fmt.Errorf("the folder of the built programs: %w", err)
	}

	dir, err := os.MkdirTemp("", o.Prefix+"-")
	if err != nil {
		return nil, err
	}
	l := &Lab{Name: fmt.Sprintf("%s-%d", o.Prefix, os.Getpid()), Dir: dir, o: o}

	err = l.makeSwitch()
	switch {
	case err != nil || o.NoAPI:
	case o.ControlPlane != nil:
		l.Client = o.ControlPlane.Client
	default:
		err = l.startControlPlane(ctx)
	}

	if err != nil {
		if l.control != nil {
			err = fmt.Errorf("%w\n%s", err, l.control.LogTail(4000))
		}
		return nil, errors.Join(fmt.Errorf("starting a lab: %w", err), l.Close())
	}

	return l, nil
}

// Close ends every process of the Lab and removes all that it made. Close it once.
func (l *Lab) Close() error {
	var errs []error
	for _, h := range slices.Backward(l.hosts) {
		errs = append(errs, h.Close())
	}
	for _, p := range l.procs {
		p.Kill()
	}
	if l.control != nil {
		l.control.Stop()
	}
	for _, name := range slices.Backward(l.spaces) {
		errs = append(errs, platform.DeleteNetns(name))
	}
	return errors.Join(append(errs, os.RemoveAll(l.Dir))...)
}

func (l *Lab) netns(name string) string { return platform.NetnsPath(l.Name + "-" + name) }

// newNetns makes a namespace that Close removes and gives its path.
func (l *Lab) newNetns(name string) (string, error) {
	full := l.Name + "-" + name
	if platform.NetnsExists(full) {
		return "", fmt.Errorf("network namespace %s is there already", full)
	}
	if err := platform.CreateNetns(full); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spaces = append(l.spaces, full)
	return platform.NetnsPath(full), platform.InNetns(platform.NetnsPath(full),
		func() error { return platform.LinkUp("lo") })
}

// makeSwitch makes the switch that is also the router, and the outside.
func (l *Lab) makeSwitch() error {
	sw, err := l.newNetns("sw")
	if err != nil {
		return err
	}
	out, err := l.newNetns("out")
	if err != nil {
		return err
	}
	err = platform.InNetns(sw, func() error {
		if err := platform.CreateBridge("sw0"); err != nil {
			return err
		}
		return errors.Join(forwarding(),
			addresses("sw0", netip.PrefixFrom(routerAddr, 24), netip.PrefixFrom(routerAddr6, 64)))
	})
	if err != nil {
		return fmt.Errorf("making the switch: %w", err)
	}

	if err := veth(sw, "out0", out, "eth0"); err != nil {
		return err
	}
	err = platform.InNetns(sw, func() error {
		return addresses("out0", netip.PrefixFrom(routerOutside, 24), netip.PrefixFrom(routerOutside6, 64))
	})
	if err != nil {
		return err
	}

	l.Outside = Place{Name: "outside", Netns: out, Addr: OutsideAddr, Addr6: OutsideAddr6}
	return platform.InNetns(out, func() error {
		return errors.Join(addresses("eth0", netip.PrefixFrom(OutsideAddr, 24), netip.PrefixFrom(OutsideAddr6, 64)),
			defaultRoutes(routerOutside, routerOutside6))
	})
}

// join makes the namespace of a host or node, linked to the switch, which knows the way to its pods.
func (l *Lab) join(name string) (*member, error) {
	path, err := l.newNetns(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.members) + 1
	if n > 200 {
		return nil, errors.New("a lab has at most 200 hosts")
	}

	m := &member{name: name, number: n, netns: path, addr: nth(Underlay, 10+n), addr6: nth(Underlay6, 10+n),
		pods:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n), 0}), 24),
		pods6: netip.MustParsePrefix(fmt.Sprintf("fd44:0:0:%x::/64", n))}
	port := fmt.Sprintf("h%d", n)
	if err := veth(l.netns("sw"), port, path, Uplink); err != nil {
		return nil, err
	}
	l.members = append(l.members, m)
	err = platform.InNetns(l.netns("sw"), func() error {
		return errors.Join(platform.JoinBridge(port, "sw0"), route(m.pods, m.addr), route(m.pods6, m.addr6))
	})

	err = errors.Join(err, platform.InNetns(path, func() error { return errors.Join(forwarding(), m.linkUp()) }))
	if err != nil {
		return nil, fmt.Errorf("joining %s to the switch: %w", name, err)
	}
	return m, nil
}

// linkUp gives the member's uplink its addresses and routes, in the member's namespace.
func (m *member) linkUp() error {
	return errors.Join(addresses(Uplink, netip.PrefixFrom(m.addr, 24), netip.PrefixFrom(m.addr6, 64)),
		defaultRoutes(routerAddr, routerAddr6))
}

// RouteTo makes the router send packets for addr, such as a load balancer's address, to a host or node.
func (l *Lab) RouteTo(addr netip.Addr, p Place) error {
	via := p.Addr
	if addr.Is6() {
		via = p.Addr6
	}
	return platform.InNetns(l.netns("sw"), func() error { return route(netip.PrefixFrom(addr, addr.BitLen()), via) })
}

func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	b[len(b)-1] += byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}
