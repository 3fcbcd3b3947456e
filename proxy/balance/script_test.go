package balance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/script"
	"porthole.dev/porthole/proxy/service"
)

// TestScripts plays testdata/*.txtar. Their sections are:
//
//	host      what the host is like, as YAML of type hostFacts; optional
//	services  Services and EndpointSlices as YAML documents; each replaces the object of its name
//	remove    "Service ns/name" and "EndpointSlice ns/name" lines: objects that are gone
//	hns       what HNS lists, one object per line as parseEndpoint and parseBalancer read them
//	apply     (empty) carries out the plan on what HNS lists
//	want plan the operations, and a "problem" line for each frontend that cannot be served as wanted
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txtar", func(*testing.T) script.Player {
		p := &player{node: service.NewTracker(service.Node{Name: "node-1"}), wanted: map[string]service.State{}}
		if err := p.Give("host", ""); err != nil {
			t.Fatal(err)
		}
		return p
	})
}

// player is one node and its HNS.
type player struct {
	node   *service.Tracker
	wanted map[string]service.State
	facts  Facts
	health uint16
	listed Listed
}

// hostFacts are the settings of the section "host".
type hostFacts struct {
	HNS       string // version; default 13.3, a Windows Server 2022
	Network   string // default L2Bridge
	DSR       *bool  // default true
	NodeAddrs []netip.Addr
	Source    string // address on overlay networks
	HostAddr  string // the host's own endpoint
	// HealthPort at which ingress IPs answer health checks; 0: they do not.
	HealthPort uint16
	// Remote are the subnets of other nodes on an overlay network, "subnet provider".
	Remote     []string
	Management string
}

// Give is for script.Run.
func (p *player) Give(section, text string) error {
	switch section {
	case "host":
		return p.giveHost(text)
	case "services":
		return p.giveServices(text)
	case "remove":
		p.remove(text)
		return nil
	case "hns":
		return p.giveHNS(text)
	case "apply":
		for _, op := range p.plan().Ops {
			p.apply(op)
		}
		return nil
	}
	return fmt.Errorf("there is no section %q", section)
}

func (p *player) remove(text string) {
	for line := range strings.Lines(text) {
		kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		namespace, short, _ := strings.Cut(name, "/")
		if kind == "Service" {
			p.node.RemoveService(namespace, short)
		} else {
			p.node.RemoveSlice(namespace, short)
		}
	}
}

// Show is for script.Run.
func (p *player) Show(section string) (string, error) {
	if section != "want plan" {
		return "", fmt.Errorf("there is no section %q", section)
	}
	changes := p.plan()
	var problems []string
	for _, problem := range changes.Problems {
		problems = append(problems, fmt.Sprintf("problem %s: %s\n", problem.Reason, problem.Text))
	}
	slices.Sort(problems)
	text := changes.String() + strings.Join(problems, "")
	if text == "" {
		text = "nothing to do\n"
	}
	return text, nil
}

func (p *player) plan() Changes {
	changed := p.node.Take()
	for _, s := range changed {
		p.wanted[s.Service] = s
	}

	var names []string
	for name := range p.wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	var all Wanted
	for _, name := range names {
		s := p.wanted[name]
		for i := range s.Frontends {
			all.Frontends = append(all.Frontends, *Adapt(&s.Frontends[i]))
			all.Frontends = append(all.Frontends, NodeAccessOf(&s.Frontends[i], &p.facts)...)
		}
		if p.health != 0 {
			all.Frontends = append(all.Frontends, HealthChecksOf(&s, p.health, &p.facts)...)
		}
	}
	return Planner{Index: IndexOf(p.listed), Facts: &p.facts}.Diff(all)
}

func (p *player) giveHost(text string) error {
	h := hostFacts{HNS: "13.3", Network: hns.L2Bridge}
	if err := yaml.UnmarshalStrict([]byte(text), &h); err != nil {
		return err
	}
	p.facts = Facts{Network: hns.Network{ID: "net-1", Name: "porthole", Type: h.Network}, DSR: h.DSR == nil || *h.DSR,
		NodeAddrs: h.NodeAddrs, NodeAccess: len(h.NodeAddrs) > 0}
	p.health = h.HealthPort
	if _, err := fmt.Sscanf(h.HNS, "%d.%d", &p.facts.Version.Major, &p.facts.Version.Minor); err != nil {
		return err
	}

	for _, a := range []struct {
		text string
		to   *netip.Addr
	}{{h.Source, &p.facts.SourceVIP}, {h.HostAddr, &p.facts.HostAddr}, {h.Management, &p.facts.Network.Management}} {
		if a.text != "" {
			*a.to = netip.MustParseAddr(a.text)
		}
	}
	for _, r := range h.Remote {
		subnet, provider, _ := strings.Cut(r, " ")
		p.facts.Network.RemoteSubnets = append(p.facts.Network.RemoteSubnets,
			hns.RemoteSubnet{Prefix: netip.MustParsePrefix(subnet), Provider: netip.MustParseAddr(provider)})
	}
	return nil
}

func (p *player) giveServices(text string) error {
	for _, document := range strings.Split(text, "\n---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return err
		}
		switch kind.Kind {
		case "Service":
			var s corev1.Service
			if err := yaml.UnmarshalStrict([]byte(document), &s); err != nil {
				return err
			}
			p.node.SetService(&s)
		case "EndpointSlice":
			var s discoveryv1.EndpointSlice
			if err := yaml.UnmarshalStrict([]byte(document), &s); err != nil {
				return err
			}
			p.node.SetSlice(&s)
		default:
			return fmt.Errorf("kind %q is neither Service nor EndpointSlice", kind.Kind)
		}
	}
	return nil
}

func (p *player) giveHNS(text string) error {
	p.listed = Listed{}
	for line := range strings.Lines(text) {
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "endpoint":
			p.listed.Endpoints = append(p.listed.Endpoints, p.parseEndpoint(strings.Fields(rest)))
		case "lb":
			lb, err := p.parseBalancer(rest)
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			p.listed.LoadBalancers = append(p.listed.LoadBalancers, lb)
		default:
			return fmt.Errorf("%q is neither endpoint nor lb", what)
		}
	}
	return nil
}

// parseEndpoint reads "local ADDR", "remote ADDR" (created by us) or "remote ADDR foreign", with "incomplete" at the
// end if HNS gives no address.
func (p *player) parseEndpoint(words []string) hns.Endpoint {
	addr := netip.MustParseAddr(words[1])
	e := hns.Endpoint{ID: hns.EndpointID(foreignID(strings.Join(words, " "))), Network: p.facts.Network.ID,
		Addrs: []netip.Addr{addr}}
	if words[0] == "remote" {
		e.Remote = true
		if !slices.Contains(words, "foreign") {
			e = remoteDocument(addr, &p.facts)
		}
	}
	if slices.Contains(words, "incomplete") {
		e.Addrs = nil
	}
	return e
}

// parseBalancer reads "VIP PORT/PROTOCOL -> ADDR,ADDR:PORT" as plans print it, with the words dsr, affinity, flags=N
// and source=ADDR, and the word foreign if another proxy created it. "node" stands for every address of the node, and
// an address that no endpoint has is the endpoint of another network. "VIP PORT/PROTOCOL empty" has neither ports nor
// endpoints.
func (p *player) parseBalancer(text string) (lb hns.LoadBalancer, err error) {
	words := strings.Fields(text)
	key := service.Key{Protocol: hns.TCP}
	port, protocol, _ := strings.Cut(words[1], "/")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return lb, err
	}
	key.Port = uint16(number)
	if protocol == "udp" {
		key.Protocol = hns.UDP
	}
	if words[0] != "node" {
		key.VIP = netip.MustParseAddr(words[0])
		lb.VIPs = []netip.Addr{key.VIP}
	}
	lb.ID = LoadBalancerID(key)
	if words[2] == "empty" {
		return hns.LoadBalancer{ID: lb.ID}, nil
	}

	last := strings.LastIndex(words[3], ":")
	internal, err := strconv.ParseUint(words[3][last+1:], 10, 16)
	if err != nil {
		return lb, err
	}
	for _, addr := range strings.Split(words[3][:last], ",") {
		lb.Endpoints = append(lb.Endpoints, p.endpointID(netip.MustParseAddr(addr)))
	}
	mapping := hns.Port{Protocol: key.Protocol, External: key.Port, Internal: uint16(internal)}
	for _, word := range words[4:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "dsr":
			lb.DSR = true
		case "affinity":
			mapping.Distribution = hns.PerSource
		case "flags":
			flags, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return lb, err
			}
			mapping.Flags = hns.PortFlags(flags)
		case "source":
			lb.SourceVIP = netip.MustParseAddr(value)
		case "foreign":
			lb.ID = hns.LoadBalancerID(foreignID(text))
		default:
			return lb, fmt.Errorf("%q is not known", word)
		}
	}
	lb.Ports = []hns.Port{mapping}
	return lb, nil
}

func (p *player) endpointID(addr netip.Addr) hns.EndpointID {
	for _, e := range p.listed.Endpoints {
		if e.Has(addr) {
			return e.ID
		}
	}
	return hns.EndpointID(foreignID("elsewhere " + addr.String()))
}

// apply does one operation as HNS would.
func (p *player) apply(op Op) {
	remove := func() {
		p.listed.LoadBalancers = slices.DeleteFunc(p.listed.LoadBalancers,
			func(lb hns.LoadBalancer) bool { return lb.ID == op.Old })
	}

	switch op.Verb {
	case CreateEndpoint:
		clusterIP := false
		for _, s := range p.wanted {
			for _, f := range s.Frontends {
				clusterIP = clusterIP || f.Kind == service.ClusterIP && f.VIP == op.Addr
			}
		}
		e, _ := EndpointFor(op.Addr, clusterIP, &p.facts)
		p.listed.Endpoints = append(p.listed.Endpoints, e)
	case DeleteEndpoint:
		p.listed.Endpoints = slices.DeleteFunc(p.listed.Endpoints,
			func(e hns.Endpoint) bool { return e.ID == op.Endpoint })
	case DeleteLB:
		remove()
	default:
		remove()
		index := IndexOf(p.listed)
		for _, b := range op.Backends {
			op.LB.Endpoints = append(op.LB.Endpoints, hns.EndpointID(index.Find(b).ID.String()))
		}
		p.listed.LoadBalancers = append(p.listed.LoadBalancers, op.LB)
	}
}

// foreignID is the id of an object that is not ours.
func foreignID(of string) string {
	sum := sha256.Sum256([]byte(of))
	return "0a0a0a0a-0000-4000-8000-" + hex.EncodeToString(sum[:6])
}
