package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/routes/fib"
)

// Remove takes back what porthole-routes made on a Linux node: its routes, the outbound NAT, the bridge and the CNI
// configuration in confDir. It is for a machine that is no node any more: no agent and no pod may run. What is gone
// already is no error.
func Remove(confDir string) error {
	return errors.Join(removeConf(confDir), removeRoutes(), removeNAT(), removeBridge())
}

// Leftovers names what Remove would take back.
func Leftovers(confDir string) (list []string, err error) {
	for _, name := range confNames {
		if _, err := os.Stat(filepath.Join(confDir, name)); err == nil {
			list = append(list, "file "+filepath.Join(confDir, name))
		}
	}
	routes, err := ourRoutes()
	if err != nil {
		return list, err
	}
	for _, r := range routes {
		list = append(list, "route "+r.Dst.String())
	}
	if _, err := netlink.LinkByName(Bridge); err == nil {
		list = append(list, "interface "+Bridge)
	}
	tables, err := natTables()
	for range tables {
		list = append(list, "nft table "+NATTable)
	}
	return list, err
}

// confNames are those of the CNI configurations of the modes.
var confNames = []string{linuxConfName, OVNConfName}

func removeConf(dir string) (err error) {
	for _, name := range confNames {
		if e := os.Remove(filepath.Join(dir, name)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("removing the CNI configuration: %w", e))
		}
	}
	return err
}

func ourRoutes() ([]netlink.Route, error) {
	list, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: fib.Protocol},
		netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	return list, nil
}

func removeRoutes() error {
	list, err := ourRoutes()
	for _, r := range list {
		if e := netlink.RouteDel(&r); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, fmt.Errorf("deleting route %s: %w", r.Dst, e))
		}
	}
	return err
}

func natTables() (found []*nftables.Table, err error) {
	kernel, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("listing nft tables: %w", err)
	}
	all, err := kernel.ListTables()
	if err != nil {
		return nil, fmt.Errorf("listing nft tables: %w", err)
	}
	for _, t := range all {
		if t.Name == NATTable {
			found = append(found, t)
		}
	}
	return found, nil
}

func removeNAT() error {
	tables, err := natTables()
	if err != nil || len(tables) == 0 {
		return err
	}
	kernel, err := nftables.New()
	if err != nil {
		return fmt.Errorf("deleting outbound NAT: %w", err)
	}
	for _, t := range tables {
		kernel.DelTable(t)
	}
	if err := kernel.Flush(); err != nil {
		return fmt.Errorf("deleting outbound NAT: %w", err)
	}
	return nil
}

func removeBridge() error {
	link, err := netlink.LinkByName(Bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("deleting the bridge %s: %w", Bridge, err)
	}
	return nil
}
