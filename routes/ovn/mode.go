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

	// Used by judgeEnd only, which Plan calls in one goroutine: time of the first of the last plans for which no link
	// had the address of the tunnels; zero: one has it.
	endless time.Time
	// Used by judge only, which Observe calls in one goroutine.
	// When the observation was made that first saw a change of the database pending; zero: none is.
	pending time.Time
	loose   map[string]time.Time // of the first observation in which each interface of Seen.Loose was there
}

// looseWait is the time after which an interface in Seen.Loose counts as lost. The plugin makes an interface a port in
// less time.
const looseWait = 30 * time.Second

// pendingWait is how long ovs-vswitchd may take to carry out a change. On a busy node with many ports that takes a
// second.
const pendingWait = 10 * time.Second

// endWait is how long no interface may have the address of the tunnels. It takes less to move the address to br-ex.
const endWait = 10 * time.Second

// New returns the mode for a host.
func New(o Options, host host) *Mode { return &Mode{o: o, host: host} }

// Network returns the pod network: on Linux the CNI configuration alone; on Windows that of ovn_cni.exe beside a
// Transparent network.
func (m *Mode) Network(o podnet.Options) (podnet.Network, error) { return network(o, m.o) }

// Observe implements keep.Mode.
func (m *Mode) Observe(ctx context.Context) (Seen, error) {
	seen, err := m.host.Observe(ctx)
	if rival := m.rival.Load(); rival != nil {
		seen.Rival = *rival
	}
	if err == nil {
		m.judge(&seen, time.Now())
		m.seen.Store(&seen)
	}
	return seen, err
}

// judge sets Lost and Away of what was observed at the time now, from how long interfaces have been in Loose and how
// long a change of the database has been pending.
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
		seen.Away = fmt.Sprintf("it has not carried out a change of the database since %s",
			m.pending.UTC().Format(time.RFC3339))
	}
}

// CheckRange returns a *RangeInUseError if pods with addresses of another range than subnet are attached to this node,
// so that it cannot get the range subnet yet.
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

// Plan completes what was observed by the address of the tunnels, which the nodes tell, and plans: see plan.go.
func (m *Mode) Plan(nodes []table.Node, seen Seen) table.Plan[Change] {
	seen.End = m.o.encap(nodes)
	seen.MTU = seen.Addrs[seen.End]
	m.judgeEnd(&seen, time.Now())
	if seen.MTU > 0 {
		m.mtu.Store(int64(PodMTU(seen.MTU, m.o.EncapType)))
	}
	return makePlan(m.o, nodes, seen)
}

// judgeEnd sets Endless of what was observed, from how long no link has had the address of the tunnels at the time now.
func (m *Mode) judgeEnd(seen *Seen, now time.Time) {
	switch {
	case seen.MTU > 0:
		m.endless = time.Time{}
	case m.endless.IsZero():
		m.endless = now
	}
	seen.Endless = seen.MTU == 0 && now.Sub(m.endless) >= endWait
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

// SwitchExtension is the id of Open vSwitch's extension of Hyper-V's switch (openvswitch
// datapath-windows/ovsext/precomp.h and ovsext.inf; Antrea names the same).
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
	// Capabilities are what the runtime tells the plugin of a pod in runtimeConfig.
	Capabilities map[string]bool `json:"capabilities,omitempty"`
}

type ipam struct {
	Type   string `json:"type"`
	Subnet string `json:"subnet"`
}

type confDNS struct {
	Nameservers []string `json:"nameservers"`
	Search      []string `json:"search,omitempty"`
}

func confOf(file, plugin string, o podnet.Options, database string, capabilities map[string]bool) (podnet.Conf, error) {
	c := conf{CNIVersion: "1.0.0", Name: podnet.NetworkName, Type: plugin, Bridge: integration, IsGateway: "true",
		IPMasq: "false",
		IPAM:   ipam{"host-local", o.PodCIDR.Masked().String()}, Database: database, Capabilities: capabilities}
	if len(o.DNS) > 0 {
		c.DNS = &confDNS{o.DNS, o.Search}
	}
	data, err := json.MarshalIndent(c, "", "  ")
	return podnet.Conf{Name: file, Data: append(data, '\n')}, err
}

func network(o podnet.Options, own Options) (podnet.Network, error) {
	linux, err := confOf(podnet.OVNConfName, "ovn_cni", o, own.Database, nil)
	if err != nil {
		return podnet.Network{}, err
	}
	// On Windows a pod has the DNS servers of its endpoint and no others: the kubelet's choice of them comes by way of
	// the plugin.
	windows, err := confOf(podnet.WindowsConfName, "ovn_cni.exe", o, "", map[string]bool{"dns": true})
	outbound := Outbound(own)
	return podnet.Network{
		HNS: hns.Network{Name: podnet.NetworkName, Type: hns.Transparent, Extension: SwitchExtension,
			Subnets: []hns.Subnet{{Prefix: o.PodCIDR.Masked(), Gateway: ovnet.RouterAddr(o.PodCIDR)}}},
		LinuxConf: linux, WindowsConf: windows, Outbound: &outbound, Apart: true,
	}, err
}

// Outbound says which packets leave a Linux node with the node's address: those of all pods that are for neither a pod
// nor a service, because OVN hands it those of Windows nodes too. Packets to other nodes are among them: an answer
// that came by another way would be unknown to OVN's connection tracking.
func Outbound(o Options) podnet.Options {
	return podnet.Options{PodCIDR: o.Cluster, Cluster: o.Cluster, Services: o.Services, Node: o.Addr}
}
