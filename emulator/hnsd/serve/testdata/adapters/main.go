// Command adapters prints the host's adapters as programs of Windows see them, in the order of Windows.
package main

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

func main() {
	if err := printAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printAll() error {
	list, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC, winipcfg.GAAFlagIncludeGateways)
	if err != nil {
		return err
	}
	for _, a := range list {
		fmt.Printf("adapter %q %q type %d metric %d", a.FriendlyName(), a.Description(), a.IfType, a.Ipv4Metric)
		if guid, err := a.LUID.GUID(); err != nil || guid.String() != a.AdapterName() {
			fmt.Printf(" GUID %v %v not %s", guid, err, a.AdapterName())
		}
		if back, err := winipcfg.LUIDFromIndex(a.IfIndex); err != nil || back != a.LUID || uint32(back>>24&0xffffff) == a.IfIndex {
			fmt.Printf(" LUID %x of index %d is %x %v", a.LUID, a.IfIndex, back, err)
		}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if ip := u.Address.IP(); ip.To4() != nil {
				fmt.Printf(" %s/%d", ip, u.OnLinkPrefixLength)
			}
		}
		for g := a.FirstGatewayAddress; g != nil; g = g.Next {
			fmt.Printf(" via %s", g.Address.IP())
		}
		fmt.Println()
	}

	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return err
		}
		fmt.Printf("go %q", i.Name)
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
				fmt.Printf(" %s", n)
			}
		}
		fmt.Println()
	}
	return printTables()
}

func printTables() error {
	rows, err := winipcfg.GetIfTable2Ex(winipcfg.MibIfEntryNormal)
	if err != nil {
		return err
	}
	for i := range rows {
		fmt.Printf("interface %q\n", rows[i].Alias())
	}

	routes, err := winipcfg.GetIPForwardTable2(windows.AF_INET)
	if err != nil {
		return err
	}
	for i := range routes {
		r, name := &routes[i], "?"
		if row, err := r.InterfaceLUID.Interface(); err == nil && row.InterfaceIndex == r.InterfaceIndex {
			name = row.Alias()
		}
		if r.DestinationPrefix.PrefixLength == 0 {
			fmt.Printf("default via %s on %q metric %d\n", r.NextHop.Addr(), name, r.Metric)
		}
	}

	links, err := winipcfg.GetIPInterfaceTable(windows.AF_INET)
	if err != nil {
		return err
	}
	for i := range links {
		row, err := links[i].InterfaceLUID.Interface()
		if err != nil {
			return err
		}
		fmt.Printf("IP %q metric %d forwarding %t\n", row.Alias(), links[i].Metric, links[i].ForwardingEnabled)
	}
	return nil
}
