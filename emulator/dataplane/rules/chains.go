package rules

import (
	"fmt"
	"slices"

	"porthole.dev/porthole/emulator/dataplane/table"
)

// NodePorts, as Kubernetes gives them out by default.
const nodePortFirst, nodePortLast = 30000, 32767

// Fences are rules that come before all others, of packets in transit and of those that programs of the host send.
type Fences struct{ Forward, Output []string }

// base renders the chains that every host has, and the empty sets that they look up. Objects of HNS only add elements
// to the sets and small chains of their own, so that a change of one object changes little. The first map of a chain
// that has the packet decides, so the order of the lines matters.
func base(d *table.Draft, h *Host, f Fences) {
	d.Begin()
	up := fmt.Sprintf("%q", h.Facts.Uplink)
	d.Base("prerouting", "type nat hook prerouting priority -100",
		"fib daddr type local ip daddr != 127.0.0.0/8 goto local",
		`iifname "hnsb*" goto frompod`,
		table.Balanced+table.Frontend+" vmap @"+table.Ext)

	d.Base("keepmark", "type filter hook prerouting priority -150",
		"ct direction original meta mark set ct mark map @"+table.Keeps)
	d.Base("frompod", "",
		table.Balanced+table.Frontend+" vmap @"+table.DSR,
		"ip saddr vmap @"+table.SDN,
		table.Balanced+table.Frontend+" vmap @"+table.Ext)

	d.Base("local", "",
		table.Balanced+"dnat to "+table.Frontend+" map @"+table.HostPortVIP,
		table.Balanced+"dnat to meta l4proto . th dport map @"+table.HostPort,
		table.Balanced+"meta l4proto . th dport vmap @"+table.NP,
		// a load balancer may have an address of the node as its frontend
		table.Balanced+table.Frontend+" vmap @"+table.DSR,
		table.Balanced+table.Frontend+" vmap @"+table.Svc)

	d.Base("output", "type nat hook output priority -100",
		table.Balanced+table.Frontend+" vmap @"+table.DSR,
		table.Balanced+table.Frontend+" vmap @"+table.Svc)
	post := []string{"snat to ct mark map @" + table.Snats}
	if node := h.node(d.Family); node.IsValid() {
		post = append(post, "ip saddr . ip daddr @"+table.Loop+" snat to "+node.String())
	}
	d.Base("postrouting", "type nat hook postrouting priority 100",
		append(post, "oifname "+up+" ip saddr vmap @"+table.Nat)...)
	established := "ct state established,related return"
	forward, output := f.Forward, f.Output
	d.Base("aclforward", "type filter hook forward priority 0",
		append(forward, established, "ip saddr vmap @"+table.ACLOut, "ip daddr vmap @"+table.ACLIn)...)
	local := []string{established}
	if d.Family == table.IPv6 {
		local = append(local, "icmpv6 type { 135, 136 } return") // finding neighbours is no traffic
		output = append(output, "icmpv6 type 137 drop")          // a redirect would send pods to each other directly
	}
	d.Base("aclinput", "type filter hook input priority 0", append(local, "ip saddr vmap @"+table.ACLOut)...)
	// A closed NodePort does not answer, as with the Windows firewall. A refusal of a first packet has sequence 0.
	closed := fmt.Sprintf("oifname %s tcp sport %d-%d tcp flags == rst|ack tcp sequence 0 drop", up, nodePortFirst,
		nodePortLast)
	d.Base("acloutput", "type filter hook output priority 0",
		slices.Concat([]string{closed}, output, local, []string{"ip daddr vmap @" + table.ACLIn})...)
}
