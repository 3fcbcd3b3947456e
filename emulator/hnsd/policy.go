package hnsd

import (
	"net/netip"
	"strconv"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// linuxMAC spells a hardware address as Linux does. It returns "" if mac is not valid.
// Windows writes AA-BB-CC-DD-EE-FF.
func linuxMAC(mac string) string {
	return strings.ToLower(strings.ReplaceAll(canonicalMAC(mac), "-", ":"))
}

// natLocalRouted is the flag of a port mapping that makes the host route its address to the switch (hcsshim
// hcn.NatFlagsLocalRoutedVip).
const natLocalRouted = 1

// addPolicy adds one policy to e. Policies that have no effect on packets here are ignored.
func addPolicy(e *desired.Endpoint, kind string, s Doc) {
	switch kind {
	case "OutBoundNAT":
		vip, _ := netip.ParseAddr(s.str("VirtualIP"))
		e.OutboundNAT = append(e.OutboundNAT, desired.OutboundNAT{VirtualIP: vip,
			Exceptions: prefixes(s.strs("Exceptions")), Destinations: prefixes(s.strs("Destinations"))})

	case "SDNRoute":
		e.SDNRoutes = append(e.SDNRoutes, readSDNRoute(s)...)

	case "PortMapping":
		vip, _ := netip.ParseAddr(s.str("VIP"))
		e.PortMappings = append(e.PortMappings, desired.PortMapping{Protocol: uint8(protocol(s)), VIP: vip,
			ExternalPort: uint16(s.num("ExternalPort")), InternalPort: uint16(s.num("InternalPort")),
			LocalRouted: s.num("Flags")&natLocalRouted != 0})

	case "ACL":
		e.ACLs = append(e.ACLs, desired.ACL{
			In:        strings.EqualFold(enum(s, "Direction", "", "In", "Out"), "In"),
			Allow:     !strings.EqualFold(s.str("Action"), "Block"),
			Priority:  uint16(s.num("Priority")),
			Protocols: protocols(s.strs("Protocols")),
			Local:     prefixes(s.strs("LocalAddresses")), Remote: prefixes(s.strs("RemoteAddresses")),
			LocalPorts: ports(s.strs("LocalPorts")), RemotePorts: ports(s.strs("RemotePorts")),
			HostLayerDriver: strings.EqualFold(s.str("RuleType"), "Host"),
		})

	case "ProviderAddress":
		e.Provider, _ = netip.ParseAddr(s.str("ProviderAddress"))
	case "QOS":
		e.MaxEgress = s.num("MaximumOutgoingBandwidthInBytes")
	case "EncapOverhead":
		// Overheads that are not between 1 and 499 bytes have no effect.
		if n := int(s.num("Overhead")); n > 0 && n < 500 {
			e.MTU = 1500 - n
		}
	}
}

// prefixes reads addresses and prefixes, leaving out what is neither.
func prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			out = append(out, p.Masked())
		} else if a, err := netip.ParseAddr(t); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// protocols leaves out what is no number of 8 bits.
func protocols(texts []string) []uint8 {
	var out []uint8
	for _, t := range texts {
		if n, err := strconv.ParseUint(t, 10, 8); err == nil {
			out = append(out, uint8(n))
		}
	}
	return out
}

// ports reads "80" and "8000-8080".
// A range that ends before it begins is left out.
func ports(texts []string) []desired.PortRange {
	var out []desired.PortRange
	for _, t := range texts {
		first, last, ranged := strings.Cut(t, "-")
		if !ranged {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err1 == nil && err2 == nil && a <= b {
			out = append(out, desired.PortRange{First: uint16(a), Last: uint16(b)})
		}
	}
	return out
}
