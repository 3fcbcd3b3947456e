package links

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/emulator/dataplane/table"
)

type keep struct{ kernel.Keep }

// keepPriority is the priority of our routing rules; they are known by it.
const keepPriority = 20100

// entries are the routing rule (packets with the pod's mark use the table of that number) and the route that leads
// everything in the table to the pod.
func (k keep) entries() (*netlink.Rule, *netlink.Route) {
	mark := table.IPv4.Mark(k.Addr)
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Mark, rule.Table = unix.AF_INET, keepPriority, mark, int(mark)
	return rule, &netlink.Route{Dst: rtnl.Anywhere(k.Addr), Table: int(mark)}
}

// create adds the route and the rule; it may be repeated. The route comes first, so that no packet finds an empty
// table.
func (k keep) create(d *Host) error {
	link, err := d.h.LinkByName(k.Bridge)
	if err != nil {
		return err
	}

	rule, route := k.entries()
	route.LinkIndex, route.Gw, route.Flags = link.Attrs().Index, k.Addr.AsSlice(), int(netlink.FLAG_ONLINK)
	if err := d.h.RouteReplace(route); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if err := d.h.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("rule: %w", err)
	}
	return nil
}

func (k keep) delete(d *Host) error {
	rule, route := k.entries()
	return errors.Join(rtnl.UnlessGone(d.h.RuleDel(rule)), rtnl.UnlessGone(d.h.RouteDel(route)))
}

// observeKeeps reads our routing rules and their tables. One without its route comes back without a bridge.
func (d *Host) observeKeeps(want kernel.State, have *kernel.State) error {
	rules, err := d.h.RuleList(unix.AF_INET)
	if err != nil {
		return fmt.Errorf("listing routing rules: %w", err)
	}

	for _, r := range rules {
		if r.Priority != keepPriority {
			continue
		}
		k := kernel.Keep{Addr: netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, r.Mark)))}
		k.ID = want.Keeps[k.Addr].ID
		routes, err := d.h.RouteListFiltered(unix.AF_INET, &netlink.Route{Table: r.Table}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("listing routes to %s: %w", k.Addr, err)
		}
		for _, route := range routes {
			if gw, _ := netip.AddrFromSlice(route.Gw.To4()); gw != k.Addr {
				continue
			}
			if link, err := d.h.LinkByIndex(route.LinkIndex); err == nil {
				k.Bridge = link.Attrs().Name
			}
		}
		have.Keeps[k.Addr] = k
	}
	return nil
}
