package dataplane

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/flows"
	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/links"
	"porthole.dev/porthole/emulator/dataplane/nft"
	"porthole.dev/porthole/emulator/dataplane/portrules"
	"porthole.dev/porthole/emulator/dataplane/render"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// Options of a data plane.
type Options struct {
	Netns  string // path of the host's network namespace; "" means the caller's own
	Uplink string // interface that leads out of the host; "" means eth0
	Nft    string // program; "" means nft from PATH
}

// DataPlane carries one host. Its methods may be called from several goroutines.
type DataPlane struct {
	*hoststack.Stack
	uplink string
	handle *rtnl.Handle
	nft    nft.Program
	links  *links.Host
	flows  *flows.Mover

	mu       sync.Mutex
	known    bool              // have is what the kernel holds, as far as only we write
	have     kernel.State      // what was last written or read
	live     *render.Rendering // the last rendering, if the kernel carries all of it
	elements nft.Elements
}

// New opens the host's network namespace and prepares its IP stack, in which no interface forwards packets until it is
// told to (SetForwarding). It changes no link and no rule of HNS.
func New(opts Options) (*DataPlane, error) {
	if opts.Uplink == "" {
		opts.Uplink = "eth0"
	}
	if opts.Nft == "" {
		opts.Nft = "nft"
	}
	handle, err := rtnl.Open(opts.Netns, unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening the data plane: %w", err)
	}
	d := &DataPlane{uplink: opts.Uplink, handle: handle, nft: nft.Program{Path: opts.Nft, Netns: opts.Netns},
		elements: nft.Elements{Netns: opts.Netns}}
	d.flows = flows.New(handle, d.backends)
	if d.Stack, err = hoststack.New(handle, d.nft); err == nil {
		d.links, err = links.New(handle, d.nft, d.Stack)
	}
	if err != nil {
		handle.Close()
		return nil, err
	}
	return d, nil
}

// Close lets go of the namespace. The network stays as it is.
func (d *DataPlane) Close() {
	d.flows.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handle.Close()
	d.elements.Close()
}

// backends returns the backends that flows of UDP frontends may stay with, by frontend.
func (d *DataPlane) backends(family string, frontends []string) map[string][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.have.Table(family).UDPBackends(frontends)
}

// PortRules returns the rules of an endpoint with their counts; ok is false if nothing of that id is desired. It reads
// the whole tables, which takes up to a second with thousands of load balancers.
func (d *DataPlane) PortRules(ctx context.Context, all desired.State, id string) (rules portrules.List, ok bool,
	err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	facts, err := d.links.Facts(d.uplink)
	if err != nil {
		return portrules.List{}, false, err
	}

	have := map[string]table.Counts{}
	for _, f := range []table.Family{table.IPv4, table.IPv6} {
		counts, there, err := d.nft.Counts(ctx, f.Table, table.Name)
		if err != nil {
			return portrules.List{}, false, err
		}
		if there {
			have[f.Table] = counts
		}
	}

	rules, ok = portrules.Of(all, id, facts, have)
	if rules.Port == "" {
		return rules, ok, nil
	}
	s, err := d.links.Counters(rules.Port) // of this side: what the endpoint sends is received here
	if err != nil || s == nil {
		return rules, ok, err
	}
	rules.Stats = &portrules.Stats{PacketsSent: s.RxPackets, BytesSent: s.RxBytes, PacketsReceived: s.TxPackets,
		BytesReceived: s.TxBytes, Dropped: s.RxDropped + s.TxDropped}
	return rules, ok, nil
}

// Traffic returns what an endpoint has sent and received since its port was made. One without a port has none.
func (d *DataPlane) Traffic(endpoint string) (t desired.Traffic) {
	// of the switch's side, which receives what the endpoint sends
	c, err := d.links.Counters(kernel.PortName(endpoint))
	if err != nil || c == nil {
		return t
	}
	t.BytesSent, t.PacketsSent, t.DroppedOutgoing = c.RxBytes, c.RxPackets, c.RxDropped
	t.BytesReceived, t.PacketsReceived, t.DroppedIncoming = c.TxBytes, c.TxPackets, c.TxDropped
	return t
}
