package platform

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The functions of this file prepare interfaces that become ports of a switch that runs as a program (Open vSwitch
// with the datapath netdev). They act on the network namespace of the calling thread and can be repeated.

// IngressTable is the nft table (family netdev) of DropIngress. It holds nothing else.
const IngressTable = "porthole-switch"

// StopChecksumOffload makes the kernel compute checksums of what the interface sends. The other end of a veth gets
// packets without them otherwise, and a program that forwards these forwards broken ones: ping works, and TCP never
// connects.
func StopChecksumOffload(name string) error {
	_, err := checksumOffload(name, unix.ETHTOOL_STXCSUM, 0)
	return err
}

// ReleaseSwitchPort undoes StopChecksumOffload and DropIngress.
func ReleaseSwitchPort(name string) error {
	kernel, table, chain, err := ingress(name)
	if err != nil {
		return err
	}
	chains, err := kernel.ListChainsOfTableFamily(table.Family)
	if err != nil {
		return fmt.Errorf("listing what is dropped: %w", err)
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name != IngressTable })
	if slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Name == name }) {
		kernel.FlushChain(chain)
		kernel.DelChain(chain)
		if len(chains) == 1 {
			kernel.DelTable(table)
		}
		if err := kernel.Flush(); err != nil {
			return fmt.Errorf("no longer dropping what comes in by %s: %w", name, err)
		}
	}
	_, err = checksumOffload(name, unix.ETHTOOL_STXCSUM, 1)
	return err
}

// checksumOffload reads (ETHTOOL_GTXCSUM) whether the kernel leaves checksums to the interface, or sets that
// (ETHTOOL_STXCSUM) to 0 or 1.
func checksumOffload(name string, cmd, wanted uint32) (on bool, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("checksums of %s: %w", name, err)
	}
	defer unix.Close(fd)

	value := struct{ cmd, data uint32 }{cmd, wanted}
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // struct ifreq is larger than what this request uses
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	request.data = unsafe.Pointer(&value)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return false, fmt.Errorf("checksums of %s: %w", name, errno)
	}
	return value.data != 0, nil
}

// DropIngress keeps what comes in by the interface from the kernel's own stack. A packet socket gets its copy before;
// without this the host answers what the switch answers too, ARP for example, with another hardware address.
func DropIngress(name string) error {
	kernel, table, chain, err := ingress(name)
	if err != nil {
		return err
	}
	if rules, err := kernel.GetRules(table, chain); err == nil && len(rules) > 0 {
		return nil
	}

	kernel.AddTable(table)
	kernel.AddChain(chain)
	kernel.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}})
	if err := kernel.Flush(); err != nil {
		return fmt.Errorf("dropping what comes in by %s: %w", name, err)
	}
	return nil
}

// ingress returns the chain of DropIngress, which need not be there.
func ingress(name string) (*nftables.Conn, *nftables.Table, *nftables.Chain, error) {
	kernel, err := nftables.New()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("dropping what comes in by %s: %w", name, err)
	}
	table := &nftables.Table{Name: IngressTable, Family: nftables.TableFamilyNetdev}
	policy := nftables.ChainPolicyAccept
	return kernel, table, &nftables.Chain{Name: name, Table: table, Type: nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookIngress,
		Priority: nftables.ChainPriorityFilter, Device: name, Policy: &policy}, nil
}

// IsSwitchPort reports whether StopChecksumOffload and DropIngress are in force for an interface.
func IsSwitchPort(name string) (bool, error) {
	if on, err := checksumOffload(name, unix.ETHTOOL_GTXCSUM, 0); err != nil || on {
		return false, err
	}
	kernel, table, chain, err := ingress(name)
	if err != nil {
		return false, err
	}
	rules, err := kernel.GetRules(table, chain)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return len(rules) > 0, err
}

// ConfigureLink sets the MTU of an interface, and its hardware address unless mac is "".
func ConfigureLink(name, mac string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if mac != "" && link.Attrs().HardwareAddr.String() != mac {
		hw, err := net.ParseMAC(mac)
		if err != nil {
			return fmt.Errorf("hardware address of %s: %w", name, err)
		}
		if err := netlink.LinkSetHardwareAddr(link, hw); err != nil {
			return fmt.Errorf("hardware address of %s: %w", name, err)
		}
	}
	if link.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("MTU %d of %s: %w", mtu, name, err)
		}
	}
	return nil
}
