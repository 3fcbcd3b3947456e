package winbridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/hns"
)

// endpointName is the same for every call about one sandbox: it makes ADD and DEL repeatable.
func endpointName(container, network string) string { return container + "_" + network }

// gateway of the pods on an L2Bridge network: the configured one, else the second address of the subnet, where node
// agents put the host's own endpoint (upstream's win-bridge has the same rule; microsoft/SDN start-kubelet.ps1).
func gateway(prefix netip.Prefix, configured netip.Addr) netip.Addr {
	if configured.IsValid() {
		return configured
	}
	return prefix.Masked().Addr().Next().Next()
}

// port is where a pod is joined to the network: the endpoint's name, the pod's address and its gateway.
type port struct {
	name    string
	addr    netip.Prefix
	gateway netip.Addr
}

// endpoint is the document for a pod. Version decides what this HNS can do.
func endpoint(c *contract.Config, network hns.Network, p port, version hns.Version) (hns.Endpoint, error) {
	addr := p.addr
	policies, err := policies(c, addr.Addr(), version)
	if err != nil {
		return hns.Endpoint{}, err
	}
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if addr.Addr().Is6() {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return hns.Endpoint{
		Name: p.name, Network: network.ID, Addrs: []netip.Addr{addr.Addr()}, PrefixLen: addr.Bits(),
		Routes: []hns.Route{{Destination: all, NextHop: p.gateway}}, DNS: dns(c), Policies: policies,
	}, nil
}

func dns(c *contract.Config) hns.DNS {
	d := hns.DNS{Domain: c.DNS.Domain, Search: c.DNS.Search, Servers: c.DNS.Nameservers, Options: c.DNS.Options}
	if r := c.RuntimeConfig.DNS; len(r.Servers) > 0 || len(r.Searches) > 0 {
		d.Servers, d.Search, d.Options = r.Servers, r.Searches, r.Options
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
}

// policies: those of the configuration, with the masquerade network as one more exception of address translation; the
// pod's host ports; and translation of a pod's calls to itself through a service.
func policies(c *contract.Config, addr netip.Addr, version hns.Version) ([]hns.Policy, error) {
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
	}
	if c.LoopbackDSR && version.HasDSR() {
		out = append(out, policy("OutBoundNAT", outboundNAT{Destinations: []string{addr.String()}}))
	}
	return out, nil
}

// withException puts the network among the exceptions of the first translation that names no destinations.
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

// mustJSON encodes plain values of ours, which cannot fail.
func mustJSON(v any) json.RawMessage {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return json.RawMessage("{}")
	}
	return bytes.TrimSpace(b.Bytes())
}
