package kubelet

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"porthole.dev/porthole/internal/platform"
)

// chooseAddress returns the address by which others reach a Windows node. ok is false if there is none yet.
//
// Looking up the host's name would not do: Windows resolves it to the addresses of all adapters, those of the pod
// network among them, in no useful order (antrea issue 1979, microsoft/SDN issue 315). The result is an address of an
// adapter with a default route, or of any adapter if anyRoute is true. It is never in podRanges: such an address
// belongs to the host's endpoint in the pod network, which may have a default route too (flannel issue 1763). An
// address in now, the node's present ones, is preferred to one whose route only has a smaller metric, so that a change
// of metrics does not change the node's address.
func chooseAddress(all []platform.Uplink, podRanges []netip.Prefix, now []string, anyRoute bool) (addr netip.Addr,
	ok bool) {
	usable := slices.DeleteFunc(slices.Clone(all), func(u platform.Uplink) bool {
		inPods := slices.ContainsFunc(podRanges, func(p netip.Prefix) bool { return p.Contains(u.Addr) })
		return inPods || usableIP(net.IP(u.Addr.AsSlice())) != nil || !u.Default && (!anyRoute || u.Endpoint)
	})
	if len(usable) == 0 {
		return netip.Addr{}, false
	}

	last := func(bad bool) int {
		if bad {
			return 1
		}
		return 0
	}
	best := slices.MinFunc(usable, func(a, b platform.Uplink) int {
		return cmp.Or(cmp.Compare(last(!a.Default), last(!b.Default)),
			cmp.Compare(last(a.Endpoint), last(b.Endpoint)),
			cmp.Compare(last(!a.Addr.Is4()), last(!b.Addr.Is4())),
			cmp.Compare(last(!slices.Contains(now, a.Addr.String())), last(!slices.Contains(now, b.Addr.String()))),
			cmp.Compare(a.Metric, b.Metric))
	})
	return best.Addr, true
}
