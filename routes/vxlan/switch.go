package vxlan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// HNS is what the mode needs of Windows networking; hns/hcn's Overlay implements it.
type HNS interface {
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	AddRemoteSubnet(ctx context.Context, network hns.NetworkID, r hns.RemoteSubnet) error
	RemoveRemoteSubnet(ctx context.Context, network hns.NetworkID, r hns.RemoteSubnet) error
	// Notifications returns a channel that receives when something changed in HNS.
	Notifications(ctx context.Context) <-chan struct{}
}

// hostSwitch is vxlan on one Windows host, whose virtual switch carries the packets. It implements keep.Mode.
type hostSwitch struct {
	o      Options
	uplink func(netip.Addr) (Uplink, error)
	paths  *prober

	unknown sync.Once // it was said that the uplink is not known

	mu      sync.Mutex
	network hns.NetworkID             // that was seen last
	added   map[hns.RemoteSubnet]bool // policies that HNS accepted and that were not read back yet
	changed func()                    // of Watch; nil: nobody watches
}

// newSwitch makes the mode. uplink returns the interface that has the node's address.
func newSwitch(o Options, uplink func(netip.Addr) (Uplink, error)) (*hostSwitch, error) {
	if o.HNS == nil {
		return nil, errors.New("the mode vxlan needs HNS")
	}
	o.Cluster = o.Cluster.Masked()
	paths := newProber(func() (net.PacketConn, error) { return openICMP(o.Addr) })
	return &hostSwitch{o: o, uplink: uplink, paths: paths, added: map[hns.RemoteSubnet]bool{}}, nil
}

// Network returns a pod network of type Overlay.
func (s *hostSwitch) Network(o podnet.Options) (podnet.Network, error) {
	return podnet.Overlay(o, s.o.Config.VNI)
}

// Observe reads the network with its policies, and what is known of the paths to other nodes. A network that is
// another than the last had no policies of ours.
func (s *hostSwitch) Observe(ctx context.Context) (seen Overlay, err error) {
	network, err := s.o.HNS.NetworkByName(ctx, podnet.NetworkName)
	if err != nil {
		return seen, fmt.Errorf("reading HNS network %s: %w", podnet.NetworkName, err)
	}
	seen.Network = network
	s.observePaths(ctx, &seen)

	s.mu.Lock()
	defer s.mu.Unlock()
	if network.ID != s.network {
		s.network = network.ID
		clear(s.added)
	}
	for _, r := range network.RemoteSubnets {
		r.MAC = hns.NormalMAC(r.MAC)
		delete(s.added, r)
	}
	return seen, nil
}

// observePaths adds the network card and the paths to other nodes. Policies do not wait for that: without the card
// nothing is probed.
func (s *hostSwitch) observePaths(ctx context.Context, seen *Overlay) {
	uplink, err := s.uplink(s.o.Addr)
	if err != nil {
		s.unknown.Do(func() {
			klog.FromContext(ctx).Error(err,
				"The path MTU to other nodes is not probed: large packets between pods may vanish unnoticed")
		})
		return
	}
	var nodes []netip.Addr
	for _, r := range seen.Network.RemoteSubnets {
		nodes = append(nodes, r.Provider)
	}
	seen.Uplink = uplink
	seen.PathMTU = s.paths.expect(nodes, uplink.MTU)
}

// Plan is pure: see overlay.go.
func (s *hostSwitch) Plan(nodes []table.Node, seen Overlay) table.Plan[PolicyOp] {
	return PlanOverlay(s.o, nodes, seen)
}

// tellLimit bounds how long policies wait for an API server that does not answer.
const tellLimit = 5 * time.Second

// Apply makes one change.
func (s *hostSwitch) Apply(ctx context.Context, o PolicyOp) error {
	var err error
	switch o.Verb {
	case RemovePolicy:
		err = s.o.HNS.RemoveRemoteSubnet(ctx, s.seen(), o.Remote)
	case AddPolicy:
		err = s.add(ctx, o.Remote)
	case Tell:
		ctx, cancel := context.WithTimeout(ctx, tellLimit)
		defer cancel()
		err = s.o.Annotate(ctx, o.Annotations)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.String(), err)
	}
	return nil
}

func (s *hostSwitch) seen() hns.NetworkID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.network
}

// add adds a policy. HNS was seen to accept policies and to lose them, which flannel never notices, so the network is
// read back in a pass that comes soon. A policy that is missing then is added again, and an error says so until HNS
// lists it.
func (s *hostSwitch) add(ctx context.Context, r hns.RemoteSubnet) error {
	if err := s.o.HNS.AddRemoteSubnet(ctx, s.seen(), r); err != nil && hns.ClassOf(err) != hns.Exists {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.added[r] {
		return errors.New("HNS has accepted this policy before and did not list it afterwards")
	}
	s.added[r] = true
	if s.changed != nil {
		s.changed()
	}
	return nil
}

// Watch subscribes to what HNS notifies of: networks that come and go. It does not notify of policies. It probes the
// path MTU to other nodes meanwhile.
func (s *hostSwitch) Watch(ctx context.Context, changed func()) error {
	ctx, stop := context.WithCancel(ctx)
	var probing sync.WaitGroup
	defer probing.Wait()
	defer stop()
	probing.Go(func() { s.paths.run(ctx, changed) })

	s.mu.Lock()
	s.changed = changed
	s.mu.Unlock()

	notified := s.o.HNS.Notifications(ctx)
	changed() // there may have been changes before
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-notified:
			changed()
		}
	}
}
