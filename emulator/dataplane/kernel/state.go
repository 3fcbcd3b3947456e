// Package kernel says what the kernel of an emulated host holds for HNS (bridges, ports, tunnels, ways, the nft tables)
// and plans what leads from one such state to another. It is pure: package links reads and writes the kernel.
package kernel

import (
	"net/netip"

	"porthole.dev/porthole/emulator/dataplane/table"
)

// State is what the kernel should hold, or does hold, for one host. Names are ours: bridges hnsb*, ports hnsv*, tunnels
// hnsx*, network namespaces hns-*, and one nft table.
type State struct {
	Namespaces map[string]string   // own network namespace -> Namespace.ID
	Bridges    map[string]Bridge   // by interface name
	Ports      map[string]Port     // by interface name
	Switches   map[string]Switch   // by interface name
	Tunnels    map[string]Tunnel   // by interface name
	Peers      map[string]Peer     // by tunnel and MAC
	Paths      map[string]Path     // by tunnel and prefix
	Arrivals   map[string]Arrival  // by tunnel, MAC and address
	Keeps      map[netip.Addr]Keep // by the pod's address
	Rules      table.Ruleset       // table ip hns
	Rules6     table.Ruleset       // table ip6 hns
	Rejected   map[string]error    // objects that cannot be carried, by id
}

// Netns is a network namespace that the data plane makes for an HCN namespace without a path.
type Netns struct{ ID, Name string }

// Bridge is the switch of one network; the node's own addresses in the network sit on it.
type Bridge struct {
	ID, Name string
	Addrs    []netip.Prefix // sorted
	MTU      int
	Six      bool // carries IPv6
	Switched bool // HNS itself carries what passes it: the host forwards it in any case (overlay and NAT networks)
	// Default is the next hop of the default route that the host gets with the address of its endpoint; zero or
	// unspecified: none. The host's programs may change or remove the route.
	Default  netip.Addr
	Settings bool // up, with our kernel settings
}

// BridgeAddr is one address of the node on a bridge.
type BridgeAddr struct {
	ID, Bridge string
	Addr       netip.Prefix
	Via        netip.Addr // next hop of the default route that comes with it, if any
}

// Port is a veth pair from a bridge into a guest namespace.
type Port struct {
	ID, Name, Bridge string
	Netns            string // path
	Guest            string // name of the guest's end
	MAC              string
	MTU              int
	Addrs            []netip.Prefix
	Gateway          netip.Addr
	Gateway6         netip.Addr
	// Extension is the name by which an extension of the switch knows the port, which then has no bridge; "": there is
	// none.
	Extension string
	Open      bool // in the segment of a network card: not isolated from other ports
	Up        bool // both ends up, the bridge's end isolated unless Open
}

func (p Port) equal(q Port) bool {
	if len(p.Addrs) != len(q.Addrs) {
		return false
	}
	for i := range p.Addrs {
		if p.Addrs[i] != q.Addrs[i] {
			return false
		}
	}
	return p.Name == q.Name && p.Bridge == q.Bridge && p.Netns == q.Netns && p.Guest == q.Guest && p.MAC == q.MAC &&
		p.MTU == q.MTU && p.Gateway == q.Gateway && p.Gateway6 == q.Gateway6 && p.Open == q.Open && p.Up == q.Up &&
		p.Extension == q.Extension
}

// Switch is a network card that is a port of a bridge.
type Switch struct {
	ID   string // of the first network that needs it
	Link string // name of the bridge, which was the card's
}

// CardPrefix is the start of the name of a card that is a port of a Switch; bridgePrefix that of its bridge while it
// is made or removed.
const CardPrefix, bridgePrefix = "hnsu", "hnst"

// Card is the name of the card while it is a port.
func (s Switch) Card() string { return CardPrefix + s.Link }

// Unfinished is the name of the bridge while it is made or removed.
func (s Switch) Unfinished() string { return bridgePrefix + s.Link }

// VXLANPort is the UDP port of tunnels that HNS gives none: the only one that flannel allows with Windows.
const VXLANPort = 4789

// Tunnel is the vxlan device of one VSID of an Overlay network.
type Tunnel struct {
	ID, Name, MAC string
	Local         netip.Addr
	VNI           uint32
	Port          uint16
	MTU           int
	Up            bool
}

// Peer says at which provider address a MAC of the overlay is.
type Peer struct {
	ID, Tunnel, MAC string
	Provider        netip.Addr
}

// Path leads a prefix into a tunnel, to the MAC of the router (or, for one address, of the endpoint) behind it.
type Path struct {
	ID, Tunnel, MAC string
	Prefix          netip.Prefix
}

// Arrival is an endpoint of this host in an overlay: hosts that know it by a remote endpoint send frames to its own
// MAC.
type Arrival struct {
	ID, Tunnel, MAC string
	Addr            netip.Addr // IPv4
}

// Key is that of State.Peers.
func (p Peer) Key() string { return p.Tunnel + " " + p.MAC }

// Key is that of State.Paths.
func (p Path) Key() string { return p.Tunnel + " " + p.Prefix.String() }

// Key is that of State.Arrivals: the tunnel, and the arrival as nft writes it.
func (a Arrival) Key() string { return a.Tunnel + " " + a.MAC + " . " + a.Addr.String() }

// Gateway is the address whose MAC the path uses.
func (p Path) Gateway() netip.Addr { return p.Prefix.Masked().Addr() }

// Keep leads packets with a pod's mark to it as they are: they keep their destination (preserve-destination).
type Keep struct {
	ID, Bridge string
	Addr       netip.Addr // the pod's; the mark is the address
}

// Table returns the rules of one family: "ip" or "ip6".
func (s *State) Table(family string) table.Ruleset {
	if family == table.IPv6.Table {
		return s.Rules6
	}
	return s.Rules
}

// NewState is that of a kernel which holds nothing.
func NewState() State {
	return State{
		Namespaces: map[string]string{}, Bridges: map[string]Bridge{}, Ports: map[string]Port{},
		Switches: map[string]Switch{},
		Tunnels:  map[string]Tunnel{}, Peers: map[string]Peer{}, Paths: map[string]Path{},
		Arrivals: map[string]Arrival{},
		Keeps:    map[netip.Addr]Keep{},
		Rules:    table.NewRuleset(),
		Rules6:   table.NewRuleset(),
		Rejected: map[string]error{},
	}
}

// Facts are what a state depends on beside HNS: what there is on the machine.
type Facts struct {
	Uplink   string // interface that leads out of the node
	Node     netip.Addr
	Node6    netip.Addr // zero: none
	MTU      int        // of the uplink
	NetnsDir string     // where own namespaces are kept
}
