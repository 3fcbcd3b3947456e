package path

import (
	"net/netip"
	"slices"
	"strings"
)

// OVS is what the database of Open vSwitch says on a node of the mode ovn.
type OVS struct {
	SystemID   string         `json:"systemID"` // the name of the node's chassis in OVN
	EncapIPs   []netip.Addr   `json:"encapIPs"` // of the node's own end of tunnels
	Interfaces []OVSInterface `json:"interfaces"`
}

// OVSInterface is a row of the table Interface in the database of Open vSwitch, of an interface whose port is on the
// bridge br-int.
type OVSInterface struct {
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"` // its type: geneve, vxlan, internal; empty: one of the system's
	Port string `json:"port,omitempty"` // the logical port (iface-id); empty: none
	// Chassis and Remote are name and address of a tunnel's other end.
	Chassis string     `json:"chassis,omitempty"`
	Remote  netip.Addr `json:"remote,omitzero"`
	Error   string     `json:"error,omitempty"` // why Open vSwitch could not open it
}

// OVN is what OVN's databases say.
type OVN struct {
	Switches []LogicalSwitch `json:"switches"`
	Routers  []LogicalRouter `json:"routers"`
	// Balancers are by the identity of their row, Groups the balancers of each group by its name, Sets the addresses
	// of address sets, and the ports of port groups, by name.
	Balancers map[string]Balancer `json:"balancers"`
	Groups    map[string][]string `json:"balancerGroups"`
	Sets      map[string][]string `json:"sets,omitempty"`
	// DropsUnmatched: packets that no ACL is about are dropped where there are ACLs.
	DropsUnmatched bool `json:"dropsUnmatched,omitempty"`

	// Of the southbound database.
	Bindings []Binding `json:"bindings"`
	Chassis  []Chassis `json:"chassis"`
}

// LogicalSwitch is the switch of a node.
type LogicalSwitch struct {
	Name      string        `json:"name"`
	Ports     []LogicalPort `json:"ports"`
	ACLs      []ACL         `json:"acls,omitempty"` // its own, and those of port groups with ports here
	Balancers []string      `json:"balancers,omitempty"`
	Groups    []string      `json:"balancerGroups,omitempty"`
}

// LogicalPort is a port of a switch.
type LogicalPort struct {
	Name       string       `json:"name"`
	Addresses  []netip.Addr `json:"addresses,omitempty"`
	RouterPort string       `json:"routerPort,omitempty"` // of the router at the other end; empty: none
	Disabled   bool         `json:"disabled,omitempty"`
}

// ACL is a rule of a switch.
type ACL struct {
	Name     string `json:"name,omitempty"`
	Out      bool   `json:"out,omitempty"` // judges packets to a port (to-lport), else those from one
	Late     bool   `json:"late,omitempty"`
	Priority int    `json:"priority"`
	Match    string `json:"match"`
	Action   string `json:"action"` // allow, allow-related, allow-stateless, drop, reject
}

// LogicalRouter joins switches.
type LogicalRouter struct {
	Name   string         `json:"name"`
	Ports  []RouterPort   `json:"ports"`
	Routes []LogicalRoute `json:"routes,omitempty"`
	// Other names what the router has that is not followed here, as policies and NAT.
	Other []string `json:"other,omitempty"`
}

// RouterPort is the router's end of the link to a switch.
type RouterPort struct {
	Name     string         `json:"name"`
	Networks []netip.Prefix `json:"networks"` // its addresses
}

// LogicalRoute is a static route.
type LogicalRoute struct {
	Prefix   netip.Prefix `json:"prefix"`
	BySource bool         `json:"bySource,omitempty"` // Prefix is compared with the sender's address
	NextHop  netip.Addr   `json:"nextHop"`
	// of the router, by which it leaves; empty: that of the network with NextHop
	Port string `json:"port,omitempty"`
}

// Balancer is a load balancer: the backends of each address and port.
type Balancer struct {
	Name     string                              `json:"name"`
	Protocol string                              `json:"protocol"`
	VIPs     map[netip.AddrPort][]netip.AddrPort `json:"vips"`
}

// Binding says at which chassis a logical port is.
type Binding struct {
	Port    string `json:"port"`
	Chassis string `json:"chassis,omitempty"` // empty: at none
}

// Chassis is a machine as OVN knows it.
type Chassis struct {
	Name string  `json:"name"`
	Host string  `json:"host,omitempty"` // its host name
	Ends []Encap `json:"ends"`
}

// Encap is an end of tunnels.
type Encap struct {
	Kind string     `json:"kind"`
	Addr netip.Addr `json:"addr"`
}

// ovn returns what OVN's databases say, from the machine that reported it; nil if none did. why says why not.
func (f *Facts) ovn() (o *OVN, why string) {
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.OVN != nil {
			return n.OVN, ""
		} else if n.Unread[UnreadOVN] != "" {
			why = n.Unread[UnreadOVN] + " (on " + n.Name + ")"
		}
	}
	if why == "" {
		why =
			"run `porthole facts --ovn-nb=… --ovn-sb=…` on the machine with OVN's databases, and give the file with --facts"
	}
	return nil, why
}

// portName is the name of a pod's logical port.
func portName(p *Pod) string { return strings.Replace(p.Name, "/", "_", 1) }

// port returns a port of a switch by its name; nil if there is none.
func (o *OVN) port(name string) (*LogicalSwitch, *LogicalPort) {
	for i := range o.Switches {
		for j := range o.Switches[i].Ports {
			if p := &o.Switches[i].Ports[j]; p.Name == name {
				return &o.Switches[i], p
			}
		}
	}
	return nil, nil
}

// HasAny reports whether a port of the switch has one of the names.
func (s *LogicalSwitch) HasAny(names []string) bool {
	return slices.ContainsFunc(s.Ports, func(p LogicalPort) bool { return slices.Contains(names, p.Name) })
}

// at returns the port of a switch with an address; nil if there is none.
func (s *LogicalSwitch) at(addr netip.Addr) *LogicalPort {
	for i := range s.Ports {
		if slices.Contains(s.Ports[i].Addresses, addr) {
			return &s.Ports[i]
		}
	}
	return nil
}

// uplink returns the switch's port to a router, with the router; nil if it has none.
func (o *OVN) uplink(s *LogicalSwitch) (*LogicalPort, *LogicalRouter) {
	for i := range s.Ports {
		for j := range o.Routers {
			if s.Ports[i].RouterPort != "" && o.Routers[j].port(s.Ports[i].RouterPort) != nil {
				return &s.Ports[i], &o.Routers[j]
			}
		}
	}
	return nil, nil
}

// behind returns the switch at the other end of a router's port, with the switch's port; nil if there is none.
func (o *OVN) behind(routerPort string) (*LogicalSwitch, *LogicalPort) {
	for i := range o.Switches {
		for j := range o.Switches[i].Ports {
			if p := &o.Switches[i].Ports[j]; p.RouterPort == routerPort {
				return &o.Switches[i], p
			}
		}
	}
	return nil, nil
}

func (r *LogicalRouter) port(name string) *RouterPort {
	for i := range r.Ports {
		if r.Ports[i].Name == name {
			return &r.Ports[i]
		}
	}
	return nil
}

func (o *OVN) binding(port string) *Binding {
	for i := range o.Bindings {
		if o.Bindings[i].Port == port {
			return &o.Bindings[i]
		}
	}
	return nil
}

func (o *OVN) chassis(name string) *Chassis {
	for i := range o.Chassis {
		if o.Chassis[i].Name == name {
			return &o.Chassis[i]
		}
	}
	return nil
}

// balancers returns the load balancers of a switch.
func (o *OVN) balancers(s *LogicalSwitch) (list []Balancer) {
	ids := slices.Clone(s.Balancers)
	for _, g := range s.Groups {
		ids = append(ids, o.Groups[g]...)
	}
	for _, id := range ids {
		if b, ok := o.Balancers[id]; ok {
			list = append(list, b)
		}
	}
	return list
}

// iface returns the interface of br-int for a logical port; nil if there is none.
func (o *OVS) iface(port string) *OVSInterface {
	for i := range o.Interfaces {
		if o.Interfaces[i].Port == port {
			return &o.Interfaces[i]
		}
	}
	return nil
}

// HasPort reports whether there is an interface for a logical port.
func (o *OVS) HasPort(port string) bool { return o.iface(port) != nil }

// named returns the interface of br-int with that name; nil if there is none.
func (o *OVS) named(name string) *OVSInterface {
	for i := range o.Interfaces {
		if o.Interfaces[i].Name == name {
			return &o.Interfaces[i]
		}
	}
	return nil
}

// machineOf returns the machine whose chassis has that name: by what its Open vSwitch says, else by the host's name
// that OVN has. It is empty if none is known.
func (f *Facts) machineOf(c *Chassis) string {
	for i := range f.Nodes {
		if o := f.Nodes[i].OVS; o != nil && o.SystemID == c.Name {
			return f.Nodes[i].Name
		}
	}
	for _, name := range []string{c.Host, c.Name} {
		if f.clusterNode(name) != nil {
			return name
		}
	}
	return ""
}

// sameID returns the machines with that system-id; more than one take each other's ports away.
func (f *Facts) sameID(id string) (names []string) {
	for i := range f.Nodes {
		if o := f.Nodes[i].OVS; o != nil && o.SystemID == id {
			names = append(names, f.Nodes[i].Name)
		}
	}
	return names
}
