package platform

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/windows/registry"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

const tcpip = `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`

// noServers are the addresses that Windows shows for an adapter without a DNS server (site-local, deprecated by RFC
// 3879).
var noServers = netip.MustParsePrefix("fec0:0:0:ffff::/64")

// ReadResolver returns the DNS servers and the search domains of this host: the host-wide list first, then those of
// every adapter that is up.
func ReadResolver() (servers, searches []string, err error) {
	list, err := adapters(winipcfg.GAAFlagSkipUnicast | winipcfg.GAAFlagSkipAnycast | winipcfg.GAAFlagSkipMulticast)
	if err != nil {
		return nil, nil, err
	}
	add := func(to *[]string, text string) {
		if text = strings.TrimSpace(text); text != "" && !slices.Contains(*to, text) {
			*to = append(*to, text)
		}
	}

	domains := func(path string) {
		k, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
		if err != nil {
			return
		}
		defer k.Close()
		text, _, _ := k.GetStringValue("SearchList") // absent unless somebody set it
		for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
			add(&searches, s)
		}
	}

	domains(tcpip)
	for _, a := range list {
		if a.IfType == winipcfg.IfTypeSoftwareLoopback || a.OperStatus != winipcfg.IfOperStatusUp {
			continue
		}
		for d := a.FirstDNSServerAddress; d != nil; d = d.Next {
			if addr, ok := netip.AddrFromSlice(d.Address.IP()); ok && !noServers.Contains(addr) {
				add(&servers, addr.Unmap().String())
			}
		}
		domains(tcpip + `\Interfaces\` + a.AdapterName())
		add(&searches, a.DNSSuffix())
	}

	return servers, searches, nil
}
