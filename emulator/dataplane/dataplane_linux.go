package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
)

// New opens the host's network namespace and prepares its IP stack, in which no interface forwards packets until it is
// told to (SetForwarding). It changes no link and no rule of HNS.
func New(opts Options) (*DataPlane, error) {
	if opts.Uplink == "" {
		opts.Uplink = "eth0"
	}
	if opts.Nft == "" {
		opts.Nft = "nft"
	}
	handle, err := handleAt(opts.Netns, unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening the data plane: %w", err)
	}
	d := &DataPlane{IPStack: &IPStack{netns: opts.Netns, handle: handle}, opts: opts, handle: handle}
	if err := platform.InNetns(opts.Netns, func() error { return sysctls(hostSettings, true) }); err != nil {
		handle.Close()
		return nil, fmt.Errorf("preparing the host's network: %w", err)
	}
	if err := d.prepareStack(); err != nil {
		handle.Close()
		return nil, fmt.Errorf("preparing the host's IP stack: %w", err)
	}
	return d, nil
}

// Close lets go of the namespace. The network stays as it is.
func (d *DataPlane) Close() {
	d.mu.Lock()
	d.mover.closed = true
	d.mu.Unlock()
	d.settle()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handle.Close()
	d.closeFast()
}

// Apply makes the kernel carry desired and returns the error of each object that it could not carry. Only what differs
// is written: a second Apply of the same writes nothing, and so does the first after a restart. An error of the whole
// means that the next Apply reads the kernel again.
func (d *DataPlane) Apply(ctx context.Context, desired desired.State) (map[string]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.applyAll(ctx, desired)
}

// applyAll does the work of Apply. The caller holds d.mu. It keeps in d.have what was written, so that it reads the
// kernel only at the start and after an operation whose effect is not known. The rules are one transaction: if it
// fails, no object is carried as wanted, and the error is that of the whole.
func (d *DataPlane) applyAll(ctx context.Context, desired desired.State) (map[string]error, error) {
	log := klog.FromContext(ctx)
	d.live = nil
	facts, err := d.facts()
	if err != nil {
		return nil, err
	}
	rendered := render(desired, facts)
	want := rendered.state
	if !d.known {
		have, err := d.observe(ctx, want)
		if err != nil {
			return nil, fmt.Errorf("reading the host's network: %w", err)
		}
		d.have, d.known = have, true
	}
	plan := Diff(want, d.have)
	if len(plan) > 0 {
		log.V(2).Info("Applying network plan", "operations", len(plan))
	}
	results := maps.Clone(want.Rejected)
	var failed error
	for _, op := range plan {
		log.V(4).Info("Applying network operation", "operation", op.String())
		err := op.apply(ctx, d, want)
		if err == nil {
			op.record(&d.have, want)
			continue
		}

		err = fmt.Errorf("%s: %w", firstLine(op.String()), err)
		switch op.(type) {
		case *Transaction:
			d.known, failed = false, errors.Join(failed, err)
			continue
		case del:
			d.known = false
		}
		results[op.owner()] = errors.Join(results[op.owner()], err)
	}
	if failed == nil && len(results) == 0 {
		d.live, d.have.Rules, d.have.Rules6 = rendered, want.Rules, want.Rules6
	}
	return results, failed
}

// Verify compares the kernel with desired and changes nothing. After a difference the next Apply reads the kernel.
func (d *DataPlane) Verify(ctx context.Context, desired desired.State) ([]Drift, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	facts, err := d.facts()
	if err != nil {
		return nil, err
	}
	want := Render(desired, facts)
	if d.live != nil {
		want.keepChains(d.live.state)
	}
	have, err := d.observe(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("reading the host's network: %w", err)
	}
	drift := []Drift{}
	for _, op := range Diff(want, have) {
		drift = append(drift, driftOf(op)...)
	}
	if len(drift) > 0 {
		d.known, d.live = false, nil
	}
	return drift, nil
}

// facts reads the uplink. Without it, or its address, the host is alone: nothing leaves it, and the loopback address
// stands in for the node's.
func (d *DataPlane) facts() (Facts, error) {
	f := Facts{Uplink: d.opts.Uplink, NetnsDir: platform.NetnsDir, MTU: 1500,
		Node: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	link, err := d.linkNamed(d.opts.Uplink)
	if link == nil && err == nil {
		link, err = d.linkNamed(Switch{Link: d.opts.Uplink}.unfinished())
	}
	if err != nil {
		return f, fmt.Errorf("reading uplink %s: %w", d.opts.Uplink, err)
	}
	if link == nil {
		return f, nil
	}

	f.MTU = link.Attrs().MTU
	if away := d.lacks(link.Attrs().Name); away != nil {
		f.Node, f.Node6 = away.node(f.Node)
		return f, nil
	}
	addrs, err := d.handle.AddrList(link, unix.AF_INET)
	if err != nil {
		return f, fmt.Errorf("reading addresses of uplink %s: %w", d.opts.Uplink, err)
	}
	if len(addrs) > 0 {
		f.Node, _ = netip.AddrFromSlice(addrs[0].IP.To4())
	}
	if addrs, err = d.handle.AddrList(link, unix.AF_INET6); err != nil {
		return f, fmt.Errorf("reading addresses of uplink %s: %w", d.opts.Uplink, err)
	}
	if six := prefixes(addrs); len(six) > 0 {
		f.Node6 = six[0].Addr()
	}
	if away := d.lacks(link.Attrs().Name); away != nil { // since the addresses were read
		f.Node, f.Node6 = away.node(f.Node)
	}
	return f, nil
}

// handleAt returns sockets of these netlink families that belong to the network namespace at path; "" means the
// caller's own.
func handleAt(path string, families ...int) (h *netlink.Handle, err error) {
	err = platform.InNetns(path, func() error {
		h, err = netlink.NewHandle(families...)
		return err
	})
	return h, err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (d *DataPlane) closeFast() {
	if d.fast != nil {
		_ = d.fast.CloseLasting() // it only waits for goroutines that there are none of
		d.fast = nil
	}
}
