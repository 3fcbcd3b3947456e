package attach

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/hns"
)

// What follows is what kinds of networks have in common. It is pure.

// DefaultRoute returns the route to everywhere through a gateway.
func DefaultRoute(gateway netip.Addr) hns.Route {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if gateway.Is6() {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return hns.Route{Destination: all, NextHop: gateway}
}

// AdditionalRoutes returns those that the configuration gives every pod.
func AdditionalRoutes(c *contract.Config) ([]hns.Route, error) {
	var out []hns.Route
	for _, r := range c.AdditionalRoutes {
		destination, err := netip.ParsePrefix(r.Dst)
		hop, err2 := netip.ParseAddr(r.GW)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("additionalRoutes: %w", err)
		}
		out = append(out, hns.Route{Destination: destination.Masked(), NextHop: hop})
	}
	return out, nil
}

// DNS returns the settings of the configuration, or those that the runtime gives for this pod.
func DNS(c *contract.Config) hns.DNS {
	d := hns.DNS{Domain: c.DNS.Domain, Search: c.DNS.Search, Servers: c.DNS.Nameservers, Options: c.DNS.Options}
	if r := c.RuntimeConfig.DNS; len(r.Servers) > 0 || len(r.Searches) > 0 {
		d.Servers = r.Servers
		d.Search = r.Searches
		d.Options = r.Options
	}
	return d
}

type outboundNAT struct {
	VirtualIP    string   `json:",omitempty"`
	Exceptions   []string `json:",omitempty"`
	Destinations []string `json:",omitempty"`
}

type portMapping struct {
	Protocol     uint8
	InternalPort int
	ExternalPort int
	VIP          string
	Flags        uint32 `json:",omitempty"`
}

// localRouted lets programs of the node reach a host port (hcsshim hcn.NatFlagsLocalRoutedVip).
const localRouted = 1

type acl struct {
	Protocols, Action, Direction, LocalPorts string
	Priority                                 uint16
}

// portPriority of the rule that allows a host port: that of Microsoft's sdnbridge.
const portPriority = 1000

// Addrs returns the addresses of a pod and the prefix length of the first one.
func Addrs(pod Pod) (addrs []netip.Addr, bits int) {
	for _, a := range pod.Addresses {
		addrs = append(addrs, a.Prefix.Addr())
	}
	return addrs, pod.Addresses[0].Prefix.Bits()
}

// Policies returns the policies of a pod's endpoint: those of the configuration, with the masquerade network as one
// more exception of address translation; the pod's host ports, with a rule that allows them if the configuration asks
// for it; and translation of a pod's calls to itself through a service.
func Policies(pod Pod) ([]hns.Policy, error) {
	c := pod.Config
	out := slices.Clone(c.Policies)
	if c.IPMasqNetwork != "" {
		exception, err := netip.ParsePrefix(c.IPMasqNetwork)
		if err != nil {
			return nil, fmt.Errorf("ipMasqNetwork: %w", err)
		}
		if out, err = withException(out, exception.String()); err != nil {
			return nil, err
		}
	}

	for _, m := range c.RuntimeConfig.PortMappings {
		if m.HostPort == 0 {
			continue
		}

		p := portMapping{InternalPort: m.ContainerPort, ExternalPort: m.HostPort, VIP: m.HostIP}
		if c.OptionalFlags.LocalRoutedPortMapping {
			p.Flags = localRouted
		}
		switch strings.ToLower(m.Protocol) {
		case "", "tcp":
			p.Protocol = uint8(hns.TCP)
		case "udp":
			p.Protocol = uint8(hns.UDP)
		default:
			return nil, fmt.Errorf("host port %d: HNS maps tcp and udp, not %q", m.HostPort, m.Protocol)
		}
		if m.HostPort < 0 || m.HostPort > 65535 || m.ContainerPort < 1 || m.ContainerPort > 65535 {
			return nil, fmt.Errorf("host port %d to %d is out of range", m.HostPort, m.ContainerPort)
		}
		out = append(out, policy("PortMapping", p))
		if c.OptionalFlags.AllowACLPortMapping {
			out = append(out, policy("ACL", acl{Protocols: fmt.Sprint(p.Protocol), Action: "Allow", Direction: "In",
				LocalPorts: fmt.Sprint(m.ContainerPort), Priority: portPriority}))
		}
	}

	if bool(c.LoopbackDSR) && pod.HNS.HasDSR() {
		for _, a := range pod.Addresses {
			out = append(out, policy("OutBoundNAT", outboundNAT{Destinations: []string{a.Prefix.Addr().String()}}))
		}
	}
	return out, nil
}

// withException returns the policies with the network among the exceptions of the first translation that names no
// destinations.
func withException(list []hns.Policy, network string) ([]hns.Policy, error) {
	for i, p := range list {
		if p.Type != "OutBoundNAT" {
			continue
		}
		var settings map[string]json.RawMessage
		var nat outboundNAT
		if err := json.Unmarshal(p.Settings, &settings); err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Type, err)
		}
		if err := json.Unmarshal(p.Settings, &nat); err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Type, err)
		}

		if len(nat.Destinations) > 0 {
			continue
		}
		if !slices.Contains(nat.Exceptions, network) {
			settings["Exceptions"] = mustJSON(append(nat.Exceptions, network))
			list[i].Settings = mustJSON(settings)
		}
		return list, nil
	}
	return append(list, policy("OutBoundNAT", outboundNAT{Exceptions: []string{network}})), nil
}

func policy(kind string, settings any) hns.Policy {
	return hns.Policy{Type: kind, Settings: mustJSON(settings)}
}

// mustJSON encodes values of our own types, which cannot fail.
func mustJSON(v any) json.RawMessage {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return json.RawMessage("{}")
	}
	return bytes.TrimSpace(b.Bytes())
}
