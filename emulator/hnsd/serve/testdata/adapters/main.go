// Command adapters prints the host's adapters as programs of Windows see them, in the order of Windows.
package main

import (
	"fmt"
	"net"
	"os"
	"unsafe"

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
		if back, err := winipcfg.LUIDFromIndex(a.IfIndex); err != nil || back != a.LUID ||
			uint32(back>>24&0xffffff) == a.IfIndex {
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
		for d := a.FirstDNSServerAddress; d != nil; d = d.Next {
			fmt.Printf(" dns %s", d.Address.IP())
		}
		fmt.Println()
	}
	if err := printParams(); err != nil {
		return err
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

// addrString is IP_ADDR_STRING of iptypes.h.
type addrString struct {
	next       *addrString
	addr, mask [16]byte
	context    uint32
}

// params is the beginning of FIXED_INFO of iptypes.h.
type params struct {
	host, domain [132]byte
	current      *addrString
	servers      addrString
}

// printParams prints the DNS servers of the host, all adapters together.
func printParams() error {
	get := windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetNetworkParams")
	var size uint32
	if r, _, _ := get.Call(0, uintptr(unsafe.Pointer(&size))); windows.Errno(r) != windows.ERROR_BUFFER_OVERFLOW {
		return fmt.Errorf("the size of the parameters: %w", windows.Errno(r))
	}
	buffer := make([]uint64, (size+7)/8)
	if r, _, _ := get.Call(uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&size))); r != 0 {
		return fmt.Errorf("the parameters: %w", windows.Errno(r))
	}

	fmt.Print("params")
	for s := &(*params)(unsafe.Pointer(&buffer[0])).servers; s != nil; s = s.next {
		fmt.Printf(" dns %q", windows.ByteSliceToString(s.addr[:]))
	}
	fmt.Println()
	return nil
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
