package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// observe reads what the kernel holds of ours. want tells where to look for the guests' ends of ports; a namespace of
// our own name that is not wanted is not seen, because it may belong to another host of this machine.
func (d *DataPlane) observe(ctx context.Context, want State) (State, error) {
	have := newState()
	for name, id := range want.Namespaces {
		if platform.NetnsExists(name) {
			have.Namespaces[name] = id
		}
	}

	for name, id := range d.have.Namespaces {
		if platform.NetnsExists(name) {
			have.Namespaces[name] = id
		}
	}

	links, err := d.handle.LinkList()
	if err != nil {
		return have, fmt.Errorf("listing links: %w", err)
	}
	for _, link := range links {
		name := link.Attrs().Name
		switch {
		case link.Type() == "bridge" && strings.HasPrefix(name, "hnsb"):
			if have.Bridges[name], err = d.observeBridge(link, want.Bridges[name]); err != nil {
				return have, fmt.Errorf("reading bridge %s: %w", name, err)
			}
		case link.Type() == "veth" && strings.HasPrefix(name, "hnsv"):
			have.Ports[name] = observePort(d.handle, link, want.Ports[name])
		case strings.HasPrefix(name, cardPrefix):
			observeSwitch(d.handle, link, want, &have)
		case link.Type() == "vxlan" && strings.HasPrefix(name, "hnsx"):
			if err := d.observeTunnel(ctx, link, want, &have); err != nil {
				return have, err
			}
		}
	}

	if err := d.observeKeeps(want, &have); err != nil {
		return have, err
	}
	if have.Rules, err = d.observeRules(ctx, "ip", "hns"); err == nil {
		have.Rules6, err = d.observeRules(ctx, "ip6", "hns")
	}
	return have, err
}

func (d *DataPlane) observeBridge(link netlink.Link, want Bridge) (Bridge, error) {
	b := Bridge{ID: want.ID, Name: link.Attrs().Name, MTU: link.Attrs().MTU, Six: want.Six, Switched: want.Switched,
		Default: want.Default}
	addrs, err := d.handle.AddrList(link, unix.AF_UNSPEC)
	if err != nil {
		return b, err
	}
	b.Addrs = prefixes(addrs)
	err = platform.InNetns(d.opts.Netns, func() error { return sysctls(bridgeSettings(b), false) })
	if err != nil && !errors.Is(err, errSetting) {
		return b, err
	}
	b.Settings = err == nil && link.Attrs().Flags&unix.IFF_UP != 0
	return b, nil
}

// observePort reads the port as far as it is where it should be; anything else comes back as a port that differs.
func observePort(host *netlink.Handle, link netlink.Link, want Port) Port {
	p := Port{ID: want.ID, Name: link.Attrs().Name, Netns: "?"}
	info, err := host.LinkGetProtinfo(link)
	isolated := err == nil && info.Isolated != want.Open && link.Attrs().Flags&unix.IFF_UP != 0
	if want.Extension != "" && link.Attrs().MasterIndex == 0 && slices.Contains(link.Attrs().AltNames, want.Extension) {
		p.Extension, p.Open, isolated = want.Extension, want.Open, link.Attrs().Flags&unix.IFF_UP != 0
	}
	if br, err := host.LinkByIndex(link.Attrs().MasterIndex); err == nil {
		p.Bridge = br.Attrs().Name
	}
	if want.Netns == "" {
		return p
	}
	h, err := handleAt(want.Netns, unix.NETLINK_ROUTE)
	if err != nil {
		return p
	}
	defer h.Close()
	eth, err := h.LinkByName(want.Guest)
	if err != nil || eth.Attrs().Index != link.Attrs().ParentIndex || eth.Attrs().ParentIndex != link.Attrs().Index {
		return p
	}

	addrs, err := h.AddrList(eth, unix.AF_UNSPEC)
	if err != nil {
		return p
	}
	p.Netns, p.Guest, p.MAC, p.MTU = want.Netns, want.Guest, eth.Attrs().HardwareAddr.String(), eth.Attrs().MTU
	p.Addrs = slices.Clone(want.Addrs)
	if !sameSet(prefixes(addrs), want.Addrs) {
		p.Addrs = prefixes(addrs)
	}
	p.Up = isolated && eth.Attrs().Flags&unix.IFF_UP != 0
	p.Gateway, p.Gateway6, p.Open = want.Gateway, want.Gateway6, want.Open
	if want.Guest == "eth0" {
		p.Gateway = defaultGateway(h, eth, unix.AF_INET)
		if want.Gateway6.IsValid() {
			p.Gateway6 = defaultGateway(h, eth, unix.AF_INET6)
		}
	}
	return p
}

// defaultGateway returns the gateway of the interface's default route in one family. It returns the zero address if
// there is none or the routes cannot be read; the next plan then sets it again.
func defaultGateway(h *netlink.Handle, eth netlink.Link, family int) netip.Addr {
	routes, err := h.RouteList(eth, family)
	if err != nil {
		return netip.Addr{}
	}
	for _, r := range routes {
		if ones := 0; r.Gw != nil {
			if r.Dst != nil {
				ones, _ = r.Dst.Mask.Size()
			}
			if gw, ok := netip.AddrFromSlice(r.Gw); ok && ones == 0 {
				return gw.Unmap()
			}
		}
	}
	return netip.Addr{}
}

// prefixes leaves out the addresses that the kernel gives each link.
func prefixes(addrs []netlink.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range addrs {
		if ip, _ := netip.AddrFromSlice(a.IP); ip.Unmap().Is4() || !ip.IsLinkLocalUnicast() {
			ones, _ := a.Mask.Size()
			out = append(out, netip.PrefixFrom(ip.Unmap(), ones))
		}
	}
	slices.SortFunc(out, func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
	return out
}

func sameSet(a, b []netip.Prefix) bool {
	if len(a) != len(b) {
		return false
	}
	for _, p := range a {
		if !slices.Contains(b, p) {
			return false
		}
	}
	return true
}

// observeRules reads a table back. No table is an empty ruleset; anything that cannot be read is an error.
func (d *DataPlane) observeRules(ctx context.Context, family, table string) (Ruleset, error) {
	var out bytes.Buffer
	if there, err := tableExists(ctx, d, family, table); err != nil || !there {
		return Ruleset{}, err
	}
	if err := d.nft(ctx, nil, &out, "-j", "-n", "list", "table", family, table); err != nil {
		return Ruleset{}, err
	}
	return parseRuleset(out.Bytes())
}

type nftObject struct {
	Set   *nftSet   `json:"set"`
	Map   *nftSet   `json:"map"`
	Chain *nftChain `json:"chain"`
	Rule  *struct {
		Chain, Comment string
	} `json:"rule"`
}

type nftSet struct {
	Name string
	Type any
	Map  any
	Elem []any
	Stmt []any // what each element does beside
}

type nftChain struct {
	Name, Type, Hook string
	Prio             int
}

// parseRuleset reads nft's JSON into the words that Render uses.
func parseRuleset(data []byte) (Ruleset, error) {
	var doc struct{ Nftables []nftObject }
	if err := json.Unmarshal(data, &doc); err != nil {
		return Ruleset{}, fmt.Errorf("reading nft's list: %w", err)
	}

	rs := Ruleset{Sets: map[string]Set{}, Chains: map[string]Chain{}}
	for _, o := range doc.Nftables {
		switch {
		case o.Set != nil:
			s := Set{Type: words(o.Set.Type), Elems: map[string]string{}}
			for _, e := range o.Set.Elem {
				s.Elems[words(e)] = ""
			}
			rs.Sets[o.Set.Name] = s
		case o.Map != nil:
			s := Set{Type: words(o.Map.Type) + " : " + words(o.Map.Map), Counted: len(o.Map.Stmt) > 0,
				Elems: map[string]string{}}
			if o.Map.Name == setStick {
				o.Map.Elem = nil // packets fill it
			}
			for _, e := range o.Map.Elem {
				pair, ok := e.([]any)
				if !ok || len(pair) != 2 {
					return rs, fmt.Errorf("reading nft's list: map %s has the element %v", o.Map.Name, e)
				}
				s.Elems[words(pair[0])] = words(pair[1])
			}
			rs.Sets[o.Map.Name] = s
		case o.Chain != nil:
			c := Chain{}
			if o.Chain.Hook != "" {
				c.Base = fmt.Sprintf("type %s hook %s priority %d", o.Chain.Type, o.Chain.Hook, o.Chain.Prio)
			}
			rs.Chains[o.Chain.Name] = c
		case o.Rule != nil:
			c := rs.Chains[o.Rule.Chain]
			sum := o.Rule.Comment
			if !strings.HasPrefix(sum, "sum:") {
				sum = "sum:unknown"
			}
			c.Rules = append(c.Rules, sum)
			rs.Chains[o.Rule.Chain] = c
		}
	}
	return rs, nil
}

// words spells one JSON value of nft as nft's own text does.
func words(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return fmt.Sprint(uint64(v))

	case []any:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = words(p)
		}
		return strings.Join(parts, " . ")

	case map[string]any:
		for kind, inner := range v {
			switch kind {
			case "concat":
				return words(inner)
			case "elem": // with a counter
				if m, ok := inner.(map[string]any); ok {
					return words(m["val"])
				}
			case "goto", "jump":
				if m, ok := inner.(map[string]any); ok {
					return kind + " " + words(m["target"])
				}
			}
		}
	}
	return fmt.Sprint(v)
}
