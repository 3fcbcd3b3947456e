package config

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strings"

	"porthole.dev/porthole/emulator/lab"
)

// Ranges are the address ranges of a cluster: of IPv4, and of IPv6 if it has both families.
type Ranges struct {
	Pods, Services []netip.Prefix
	// Masks are the lengths of a node's pod ranges, one for each of Pods.
	Masks []int
}

// maxNodeBits is by how much a node's range may be longer than that of all pods: the controller manager refuses more.
const maxNodeBits = 16

// longest are the longest pod ranges of a node: network, gateway, the host's endpoint and broadcast leave room for
// pods.
const longest, longest6 = 29, 120

// Ranges reads PodCIDR and NodeMask. The range of a node is a /24, or longer where the range of all pods is too small
// for that; of IPv6 it is a /64 in the same way.
func (c Cluster) Ranges() (Ranges, error) {
	text := c.PodCIDR
	if text == "" {
		text = lab.PodRange.String()
	}
	r := Ranges{Services: []netip.Prefix{lab.ServiceIPs}}
	for i, field := range strings.Split(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(field))
		if err != nil || i > 1 || p.Addr().Is4() != (i == 0) || p.Addr().Is4In6() {
			return r,
				fmt.Errorf(
					"--pod-cidr %s: must be a range of IPv4 such as 10.244.0.0/16, or one of IPv4 and one of IPv6 such as 10.244.0.0/16,fd00:10:244::/48", text)
		}
		r.Pods = append(r.Pods, p.Masked())
	}
	if len(r.Pods) > 1 {
		r.Services = append(r.Services, lab.ServiceIPs6)
	}

	for i, p := range r.Pods {
		for _, other := range append(lab.Taken(), r.Services...) {
			if p.Overlaps(other) {
				return r, fmt.Errorf("--pod-cidr %s overlaps with %s, which the local cluster has already", p, other)
			}
		}
		mask, err := c.mask(p, i > 0)
		if err != nil {
			return r, err
		}
		r.Masks = append(r.Masks, mask)
	}
	return r, nil
}

// mask returns the length of a node's part of a range.
func (c Cluster) mask(pods netip.Prefix, six bool) (int, error) {
	nodes := c.LinuxNodes + c.WindowsNodes
	least := pods.Bits() + bits.Len(uint(max(nodes, 1)-1)) // has room for all nodes
	mask, limit := max(24, least), longest
	if six {
		mask, limit = max(64, least), longest6
	}
	mask = min(mask, pods.Bits()+maxNodeBits)
	if c.NodeMask > 0 && !six {
		mask = c.NodeMask
	}

	if mask < least || mask > min(limit, pods.Bits()+maxNodeBits) {
		return 0,
			fmt.Errorf(
				"--pod-cidr %s: a node's part cannot be a /%d: it must be /%d or longer for %d nodes, at most /%d so that pods have room, and at most %d longer than the whole",
				pods, mask, least, nodes, limit, maxNodeBits)
	}
	return mask, nil
}

// PodCIDRs are the ranges of pods as Kubernetes' flags take them.
func (r Ranges) PodCIDRs() string { return join(r.Pods) }

// ServiceCIDRs are the ranges of services as Kubernetes' flags take them.
func (r Ranges) ServiceCIDRs() string { return join(r.Services) }

func join(list []netip.Prefix) string {
	var texts []string
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}

// MaskFlags are the flags of the controller manager for the lengths of the nodes' ranges.
func (r Ranges) MaskFlags() []string {
	switch len(r.Masks) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("--node-cidr-mask-size=%d", r.Masks[0])}
	}
	return []string{fmt.Sprintf("--node-cidr-mask-size-ipv4=%d", r.Masks[0]),
		fmt.Sprintf("--node-cidr-mask-size-ipv6=%d", r.Masks[1])}
}

// Dual reports whether the cluster has IPv6 beside IPv4.
func (c Cluster) Dual() bool {
	r, err := c.Ranges()
	return err == nil && len(r.Pods) > 1
}

// NodeIPs is the value of --node-ip of a node's kubelet and routes.
func (c Cluster) NodeIPs(n Node) string {
	if !c.Dual() {
		return n.Address.String()
	}
	return n.Address.String() + "," + lab.Six(n.Address).String()
}
