package vxlan

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// Mode is vxlan on one Linux node. It implements keep.Mode.
type Mode struct {
	o      Options
	netns  string // path of the network namespace; "": the process's own
	kernel *netlink.Handle
	paths  *prober
	mtu    atomic.Int64 // of the uplink when it was seen last; 0: not seen yet
	index  atomic.Int64 // of the device when it was seen last; 0: not there
}

// Period bounds how long a wrong entry stays that the kernel did not report. There are three entries for each node, so
// that everything is compared seldom.
const Period = 2 * time.Minute

// New returns the mode for one node.
func New(o Options) (*Mode, error) { return newIn("", o) }

// newIn is New for the network namespace at path; "" means the process's own.
func newIn(path string, o Options) (*Mode, error) {
	m := &Mode{o: o, netns: path}
	m.paths = newProber(func() (conn net.PacketConn, err error) {
		err = platform.InNetns(path, func() error {
			conn, err = openICMP(o.Addr)
			return err
		})
		return conn, err
	})
	m.o.Cluster = o.Cluster.Masked()
	err := platform.InNetns(path, func() (err error) {
		m.kernel, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening the kernel's network configuration: %w", err)
	}
	return m, nil
}

// Network returns a bridged pod network whose MTU leaves room for the outer headers.
func (m *Mode) Network(o podnet.Options) (podnet.Network, error) {
	mtu := int(m.mtu.Load())
	if mtu == 0 {
		up, err := m.uplink()
		if err != nil {
			return podnet.Network{}, err
		}
		mtu = up.MTU
	}
	o.MTU = mtu - Overhead
	return podnet.Bridged(o)
}

// Plan is pure: see kernel.go.
func (m *Mode) Plan(nodes []table.Node, seen Kernel) table.Plan[Op] {
	return PlanKernel(m.o, nodes, seen)
}

// announceLimit bounds how long routes wait for an API server that does not answer.
const announceLimit = 5 * time.Second

// Apply makes one change.
func (m *Mode) Apply(ctx context.Context, o Op) error {
	var err error
	if o.Verb == Announce {
		ctx, cancel := context.WithTimeout(ctx, announceLimit)
		defer cancel()
		err = m.o.Annotate(ctx, o.Annotations)
	} else {
		err = m.change(o)
	}
	if err != nil {
		return fmt.Errorf("%s (%s): %w", o.String(), m.o.Config.Device(), err)
	}
	return nil
}
