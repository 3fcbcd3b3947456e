package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// host observes and changes this host. NewHost returns the implementation for this operating system.
type host interface {
	Observe(context.Context) (Seen, error)
	Apply(context.Context, Change) error
	Watch(ctx context.Context, changed func()) error
}

// Mode is OVN on one node. It implements keep.Mode.
type Mode struct {
	o    Options
	host host
	mtu  atomic.Int64 // of the pods, in bytes; 0: not known yet
	// rival describes another service proxy that runs on this node; "" if there is none, nil before the first look.
	rival atomic.Pointer[string]
	seen  atomic.Pointer[Seen] // what was observed last; nil: nothing yet

	// Of Observe only.
	pending time.Time            // since when ovs-vswitchd has not carried out a change; zero: it has
	loose   map[string]time.Time // since when each interface of Seen.Loose is so
}

// looseWait is how long an interface of a pod may be no port: longer than the plugin takes to make one a port.
const looseWait = 30 * time.Second

// pendingWait is how long ovs-vswitchd may take to carry out a change. On a busy node with many ports that takes a second.
const pendingWait = 10 * time.Second

// New returns the mode for a host.
func New(o Options, host host) *Mode { return &Mode{o: o, host: host} }

// Network returns the pod network: on Linux the CNI configuration alone; on Windows that of ovn_cni.exe beside a Transparent network.
func (m *Mode) Network(o podnet.Options) (podnet.Network, error) { return network(o, m.o) }

// Observe implements keep.Mode.
func (m *Mode) Observe(ctx context.Context) (Seen, error) {
	seen, err := m.host.Observe(ctx)
	if rival := m.rival.Load(); rival != nil {
		seen.Rival = *rival
	}
	if seen.MTU > 0 {
		m.mtu.Store(int64(PodMTU(seen.MTU, m.o.EncapType)))
	}
	if err == nil {
		m.judge(&seen, time.Now())
		m.seen.Store(&seen)
	}
	return seen, err
}

// judge completes what depends on how long something is so: Away and Lost.
func (m *Mode) judge(seen *Seen, now time.Time) {
	since := map[string]time.Time{}
	for _, name := range seen.Loose {
		first, known := m.loose[name]
		if !known {
			first = now
		}
		since[name] = first
		if now.Sub(first) >= looseWait {
			seen.Lost = append(seen.Lost, name)
		}
	}
	m.loose = since

	switch {
	case !seen.Pending:
		m.pending = time.Time{}
	case m.pending.IsZero():
		m.pending = now
	case seen.Away == "" && now.Sub(m.pending) >= pendingWait:
		seen.Away = fmt.Sprintf("it has not carried out a change of the database since %s", m.pending.UTC().Format(time.RFC3339))
	}
}

// CheckRange returns a *RangeInUseError if the node cannot get a pod range yet, because pods of another one are attached.
func (m *Mode) CheckRange(ctx context.Context, subnet netip.Prefix) error {
	seen := m.seen.Load()
	if seen == nil {
		now, err := m.Observe(ctx)
		if err != nil {
			return fmt.Errorf("whether pods of another range are attached is not known: %w", err)
		}
		seen = &now
	}
	if e := held(*seen, subnet); e != nil {
		return e
	}
	return nil
}

// MTU returns that of the pods; 0 while it is not known.
func (m *Mode) MTU() int { return int(m.mtu.Load()) }

// Plan is pure: see plan.go.
func (m *Mode) Plan(nodes []table.Node, seen Seen) table.Plan[Change] {
	return makePlan(m.o, nodes, seen)
}

// Apply implements keep.Mode.
func (m *Mode) Apply(ctx context.Context, c Change) error {
	if err := m.host.Apply(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// Watch implements keep.Mode.
func (m *Mode) Watch(ctx context.Context, changed func()) error { return m.host.Watch(ctx, changed) }

// SwitchExtension is the id of Open vSwitch's extension of Hyper-V's switch (openvswitch datapath-windows/ovsext/precomp.h and ovsext.inf;
// Antrea names the same).
const SwitchExtension = "583CC151-73EC-4A6A-8B47-578297AD7623"

// conf is the configuration of the plugin, in the form of its first one.
type conf struct {
	CNIVersion string   `json:"cniVersion,omitempty"`
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Bridge     string   `json:"bridge"`
	IsGateway  string   `json:"isGateway"`
	IPMasq     string   `json:"ipMasq"`
	IPAM       ipam     `json:"ipam"`
	Database   string   `json:"ovsdb,omitempty"`
	DNS        *confDNS `json:"dns,omitempty"`
}

type ipam struct {
	Type   string `json:"type"`
	Subnet string `json:"subnet"`
}

type confDNS struct {
	Nameservers []string `json:"nameservers"`
	Search      []string `json:"search,omitempty"`
}

func confOf(file, plugin string, o podnet.Options, database string) (podnet.Conf, error) {
	c := conf{CNIVersion: "1.0.0", Name: podnet.NetworkName, Type: plugin, Bridge: integration, IsGateway: "true", IPMasq: "false",
		IPAM: ipam{"host-local", o.PodCIDR.Masked().String()}, Database: database}
	if len(o.DNS) > 0 {
		c.DNS = &confDNS{o.DNS, o.Search}
	}
	data, err := json.MarshalIndent(c, "", "  ")
	return podnet.Conf{Name: file, Data: append(data, '\n')}, err
}

func network(o podnet.Options, own Options) (podnet.Network, error) {
	linux, err := confOf("10-porthole.conf", "ovn_cni", o, own.Database)
	if err != nil {
		return podnet.Network{}, err
	}
	windows, err := confOf(podnet.WindowsConfName, "ovn_cni.exe", o, "")
	outbound := Outbound(own)
	return podnet.Network{
		HNS: hns.Network{Name: podnet.NetworkName, Type: hns.Transparent, Extension: SwitchExtension,
			Subnets: []hns.Subnet{{Prefix: o.PodCIDR.Masked(), Gateway: ovnet.RouterAddr(o.PodCIDR)}}},
		LinuxConf: linux, WindowsConf: windows, Outbound: &outbound, Apart: true,
	}, err
}

// Outbound says which packets leave a Linux node with the node's address: those of all pods that are for neither a pod nor a service, because
// OVN hands it those of Windows nodes too. Packets to other nodes are among them: an answer that came by another way would be unknown to
// OVN's connection tracking.
func Outbound(o Options) podnet.Options {
	return podnet.Options{PodCIDR: o.Cluster, Cluster: o.Cluster, Services: o.Services, Node: o.Addr}
}
