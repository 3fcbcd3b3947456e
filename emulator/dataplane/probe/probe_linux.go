// Package probe tries what the data plane of an emulated host needs of the machine.
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/internal/platform"
)

// probes are the abilities that the data plane stands on, and what is lost without each. A script goes to nft.
var probes = []struct {
	ability, lost string
	script        string
	try           func(h *rtnl.Handle) error
}{
	{ability: "bridge devices", lost: "L2Bridge networks", try: func(h *rtnl.Handle) error {
		return h.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}})
	}},
	{ability: "veth devices with isolated bridge ports", lost: "endpoints", try: probePort},
	{ability: VXLANDevices, lost: "Overlay networks", try: func(h *rtnl.Handle) error {
		return h.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "probe3"}, VxlanId: 4096,
			Port: kernel.VXLANPort})
	}},
	{ability: "connection tracking over netlink", lost: "moving UDP flows when a backend goes",
		try: func(h *rtnl.Handle) error {
			_, err := h.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
			return err
		}},
	{ability: "nft tables of family ip", lost: "all policies", script: "add chain ip probe c"},
	{ability: "nft NAT", lost: "OutBoundNAT and load balancers",
		script: "add chain ip probe nat { type nat hook prerouting priority -100; }\nadd rule ip probe c snat to 192.0.2.1"},
	{ability: NATOfIPv6, lost: "IPv6",
		script: "add table ip6 probe\nadd chain ip6 probe nat { type nat hook prerouting priority -100; }\nadd chain ip6 probe c\n" +
			"add rule ip6 probe c snat to 2001:db8::1"},
	{ability: "nft maps of several fields", lost: "load balancers",
		script: "add map ip probe m { type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service; }\n" +
			"add rule ip probe c " + table.Balanced + "dnat to " + table.Frontend + " . meta mark map @m"},
	{ability: "nft numgen", lost: "spreading connections over backends",
		script: "add rule ip probe c meta mark set numgen random mod 2"},
	{ability: "nft jhash", lost: "session affinity",
		script: "add rule ip probe c meta mark set jhash ip saddr mod 2 seed 0x1"},
	{ability: "nft fib", lost: "NodePorts and hostPorts", script: "add rule ip probe c fib daddr type local return"},
	{ability: "nft connection marks", lost: "load balancers without direct server return",
		script: "add rule ip probe c ct mark set 0x1"},
	{ability: "nft interval sets", lost: "exceptions and ACLs",
		script: "add rule ip probe c ip daddr { 192.0.2.0/24, 198.51.100.1 } return"},
}

// Lack is something that the data plane stands on and this machine lacks.
type Lack struct {
	Ability string // for example "vxlan devices"
	Text    string // a sentence: what is missing, and what does not work without it
}

func (l Lack) String() string { return l.Text }

// Abilities that not every network needs.
const (
	VXLANDevices = "vxlan devices"
	NATOfIPv6    = "nft NAT of family ip6"
)

// Run tries, in a network namespace of its own, what the data plane needs of this machine, and returns what is
// missing.
func Run(ctx context.Context, nft string) (missing []Lack, err error) {
	if nft == "" {
		nft = "nft"
	}
	if _, err := exec.LookPath(nft); err != nil {
		text := fmt.Sprintf(
			"the program %s is not installed (apt-get install nftables): no policies and no load balancers", nft)
		return []Lack{{Ability: nft, Text: text}}, nil
	}

	name := fmt.Sprintf("hns-probe-%d", os.Getpid())
	if err := platform.CreateNetns(name); err != nil {
		return nil, fmt.Errorf("probing the kernel: %w", err)
	}
	defer func() { err = errors.Join(err, platform.DeleteNetns(name)) }()
	h, err := rtnl.Open(platform.NetnsPath(name), unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("probing the kernel: %w", err)
	}
	defer h.Close()
	for _, p := range probes {
		err := error(nil)
		if p.try != nil {
			err = p.try(h)
		} else {
			err = tryScript(ctx, nft, platform.NetnsPath(name),
				"add table ip probe\nadd chain ip probe c\n"+p.script+"\n")
		}
		if err != nil {
			text := fmt.Sprintf("the kernel has no %s: no %s (%v)", p.ability, p.lost, err)
			missing = append(missing, Lack{Ability: p.ability, Text: text})
		}
	}
	return missing, nil
}

func probePort(h *rtnl.Handle) error {
	if err := h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe1"}, PeerName: "probe2"}); err != nil {
		return err
	}
	port, err := h.LinkByName("probe1")
	if err != nil {
		return err
	}
	bridge, err := h.LinkByName("probe0")
	if err != nil {
		return err
	}
	return errors.Join(h.LinkSetMaster(port, bridge), h.LinkSetIsolated(port, true))
}

func tryScript(ctx context.Context, nft, path, script string) error {
	cmd := exec.CommandContext(ctx, nft, "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := platform.StartInNetns(path, cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return errors.New(line)
	}
	return nil
}
