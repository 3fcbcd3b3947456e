package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
)

// nodeAddresses are the node's addresses. As in upstream's kubelet the first of these counts: the addresses that
// --node-ip gives, the node's name if it is an address, the name's address in DNS, the address of the interface with
// the default route. 0.0.0.0 and :: in --node-ip stand for the last of these, for IPv4 and IPv6. On Windows
// chooseAddress takes the place of the last two.
//
// Addresses that --node-ip does not give are found again when the host's addresses change. It is safe for concurrent
// use.
type nodeAddresses struct {
	given []net.IP // by --node-ip; it may have 0.0.0.0 and ::
	name  string   // of the node
	host  addressHost

	mu        sync.Mutex
	now       []string       // the main one first; the list itself is never changed
	podRanges []netip.Prefix // ranges in which no address of the node can be
	again     wakeup.Signal  // the addresses are to be found again
}

// addressHost has the questions to the host. Tests replace them.
type addressHost struct {
	// uplinks returns errors.ErrUnsupported on Linux, where lookUp and routed find the address.
	uplinks func() ([]platform.Uplink, error)
	// lookUp returns the address of a name in DNS, nil if there is none that can be the node's.
	lookUp func(name string) net.IP
	// routed returns the address from which the host reaches others.
	routed func(v6 bool) (net.IP, error)
	// here reports whether an interface of the host has the address.
	here func(ip net.IP) bool
	// watch calls changed after each change of the host's addresses. It returns nil when ctx ends.
	watch func(ctx context.Context, changed func()) error
}

// thisHost is the host that this program runs on.
func thisHost() addressHost {
	return addressHost{uplinks: platform.Uplinks, lookUp: lookUp, routed: routed, here: onThisHost,
		watch: platform.Addresses{}.Watch}
}

// errNoAddress is the cause while the host has no address that can be the node's.
var errNoAddress = errors.New("the host has no address yet that can be the node's (give one with --node-ip)")

// newNodeAddresses parses text, the value of --node-ip. It does not look for addresses: see wait.
func newNodeAddresses(text, name string, host addressHost) (*nodeAddresses, error) {
	given, err := parseNodeIPs(text)
	if err != nil {
		return nil, err
	}
	for _, ip := range given {
		if err := usableIP(ip); err != nil && !ip.IsUnspecified() {
			return nil, fmt.Errorf("--node-ip %s: %w", ip, err)
		}
		if !ip.IsUnspecified() && !host.here(ip) {
			klog.Background().Info("The node's address is on none of its interfaces", "address", ip.String())
		}
	}
	return &nodeAddresses{given: given, name: name, host: host, again: wakeup.New()}, nil
}

// addressBackoff is the wait before a host without an address is asked again; a change of its addresses ends it.
var addressBackoff = retry.Backoff{First: 200 * time.Millisecond, Max: 5 * time.Second}

// addressWait is how long an address with a default route is waited for. A host that has only other ones after that
// time is on a network without a way out.
const addressWait = 30 * time.Second

// wait returns nil when the node has an address: a host may start this program before DHCP has given it one. It
// returns an error if ctx ends before.
func (a *nodeAddresses) wait(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed := wakeup.New()
	go func() {
		if err := a.host.watch(watching, changed.Wake); err != nil && watching.Err() == nil {
			klog.FromContext(ctx).
				Info("The host does not report changes of its addresses; asking for them again and again", "cause",
					err.Error())
		}
	}()

	// After addressWait an address by any route will do.
	begin := time.Now()
	for failures := 1; ; failures++ {
		err := a.find(time.Since(begin) >= addressWait)
		if err == nil {
			return nil
		}
		if failures == 1 {
			klog.FromContext(ctx).Info("Waiting for an address of the node", "cause", err.Error())
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("finding the node's address: %w", errors.Join(ctx.Err(), err))
		case <-changed:
		case <-time.After(addressBackoff.Wait(failures)):
		}
	}
}

// list returns the addresses as they are now, the main one first. The caller must not change the list.
func (a *nodeAddresses) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// avoid adds a pod range of the node, from which no address is taken. It does not block. It ignores a cidr that cannot
// be parsed.
func (a *nodeAddresses) avoid(cidr string) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.podRanges, prefix) {
		a.podRanges = append(a.podRanges, prefix)
		a.again.Wake()
	}
}

// settle is the wait after a change of addresses, because changes come in groups: a virtual switch that takes over a
// network card takes the address from the card and then gives it to the switch's own adapter.
const settle = time.Second

// keep finds the addresses again after each change of the host's, until ctx ends, and calls changed if the result
// differs. While the host has no usable address the last ones stay, because others know the node by them.
func (a *nodeAddresses) keep(ctx context.Context, changed func()) {
	if len(a.given) > 0 && !slices.ContainsFunc(a.given, net.IP.IsUnspecified) || net.ParseIP(a.name) != nil {
		return
	}
	go a.watch(ctx)

	loop.Loop{Later: true, Wake: a.again, Settle: settle, Pass: func(ctx context.Context) error {
		before := a.list()
		if err := a.find(false); err != nil {
			klog.FromContext(ctx).Info("The node keeps an address that the host may not have", "addresses", before,
				"cause",
				err.Error())
		} else if now := a.list(); !slices.Equal(before, now) {
			klog.FromContext(ctx).Info("The node's addresses have changed", "before", before, "now", now)
			changed()
		}
		return nil
	}}.Run(ctx)
}

// watchBackoff is the wait before a subscription to changes of addresses that failed is made again.
var watchBackoff = retry.Backoff{First: time.Second, Max: time.Minute}

// watch wakes keep after each change of the host's addresses, until ctx ends. A subscription that fails is made again.
func (a *nodeAddresses) watch(ctx context.Context) {
	for failures := 1; ; failures++ {
		err := a.host.watch(ctx, a.again.Wake)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err,
			"The node's address does not follow the host's until the subscription succeeds; trying again")
		if !wakeup.Pause(ctx, watchBackoff.Wait(failures)) {
			return
		}
	}
}

// find looks for the addresses once and keeps what it finds. After an error the last ones stay.
func (a *nodeAddresses) find(anyRoute bool) error {
	a.mu.Lock()
	before, ranges := a.now, a.podRanges
	a.mu.Unlock()
	var out []string
	for _, ip := range a.given {
		if ip.IsUnspecified() {
			var err error
			if ip, err = a.host.routed(ip.To4() == nil); err == nil {
				err = usableIP(ip)
			}
			if err != nil {
				return fmt.Errorf("finding the address that --node-ip leaves open: %w", err)
			}
		}
		out = append(out, ip.String())
	}
	if len(out) == 0 {
		ip, err := a.found(before, ranges, anyRoute)
		if err != nil {
			return err
		}
		out = []string{ip}
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = out
	return nil
}

// found returns the address of a node without --node-ip. before are the addresses that it has so far, ranges those of
// its pods.
func (a *nodeAddresses) found(before []string, ranges []netip.Prefix, anyRoute bool) (string, error) {
	if ip := net.ParseIP(a.name); ip != nil {
		return ip.String(), nil
	}

	all, err := a.host.uplinks()
	if err == nil {
		if addr, ok := chooseAddress(all, ranges, before, anyRoute); ok {
			return addr.String(), nil
		}
		return "", errNoAddress
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return "", fmt.Errorf("finding the node's address: %w", err)
	}

	// A failed look-up in DNS must not change the address.
	if len(before) == 1 && a.host.here(net.ParseIP(before[0])) {
		return before[0], nil
	}
	if ip := a.host.lookUp(a.name); ip != nil {
		return ip.String(), nil
	}
	ip, err := a.host.routed(false)
	if err != nil {
		ip, err = a.host.routed(true)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoAddress, err)
	}
	return ip.String(), nil
}

// parseNodeIPs reads one address, or one of each family.
func parseNodeIPs(text string) ([]net.IP, error) {
	var out []net.IP
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		ip := net.ParseIP(s)
		if ip == nil {
			return nil, fmt.Errorf("--node-ip: %q is not an address", s)
		}
		out = append(out, ip)
	}
	if len(out) > 2 || len(out) == 2 && (out[0].To4() == nil) == (out[1].To4() == nil) {
		return nil, fmt.Errorf("--node-ip: %q is neither one address nor one of each family", text)
	}
	return out, nil
}

// usableIP refuses addresses that other nodes cannot use, in upstream's words.
func usableIP(ip net.IP) error {
	switch {
	case ip.IsLoopback():
		return errors.New("nodeIP can't be loopback address")
	case ip.IsMulticast():
		return errors.New("nodeIP can't be a multicast address")
	case ip.IsLinkLocalUnicast():
		return errors.New("nodeIP can't be a link-local unicast address")
	case ip.IsUnspecified():
		return errors.New("nodeIP can't be an all zeros address")
	}
	return nil
}

// onThisHost is true also if the host does not tell its addresses.
func onThisHost(ip net.IP) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true // unknown: do not refuse it
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// lookUp returns an address that DNS has for the name and that is on this host, preferably IPv4, or nil.
func lookUp(name string) (found net.IP) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", name)
	if err != nil {
		return nil
	}

	for _, ip := range ips {
		if usableIP(ip) != nil || !onThisHost(ip) {
			continue
		}
		if ip.To4() != nil {
			return ip
		}
		if found == nil {
			found = ip
		}
	}
	return found
}

// routed returns the address from which this host reaches others. It sends no packet: it only asks the system for a
// route.
func routed(v6 bool) (net.IP, error) {
	network, far := "udp4", "192.0.2.1:9"
	if v6 {
		network, far = "udp6", "[2001:db8::1]:9"
	}
	conn, err := net.Dial(network, far)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP, nil
}
