package probe

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/platform"
)

// RunHNS asks this host's HNS.
func RunHNS(ctx context.Context, o Options) (check.Report, error) {
	return ProbeHNS(ctx, hcn.NewRaw(hcn.Options{}), thisMachine{}, o)
}

// release of Windows, for the head of a report.
func release() string {
	h, err := platform.ReadHost(`C:\`)
	if err != nil {
		return "unknown: " + err.Error()
	}
	return h.KernelVersion + " " + h.OSImage
}

// thisMachine asks the machine that the probe runs on.
type thisMachine struct{}

// Adapters lists the adapters but for the loopback one, each with its addresses and the number of its default routes
// of IPv4.
func (thisMachine) Adapters() ([]Adapter, error) {
	list, err := winipcfg.GetAdaptersAddresses(windows.AF_UNSPEC, winipcfg.GAAFlagDefault)
	if err != nil {
		return nil, fmt.Errorf("listing adapters: %w", err)
	}
	routes, err := winipcfg.GetIPForwardTable2(windows.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}

	var adapters []Adapter
	for _, a := range list {
		if a.IfType == winipcfg.IfTypeSoftwareLoopback {
			continue
		}
		out := Adapter{Name: a.FriendlyName()}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
				out.Addrs = append(out.Addrs, addr.Unmap())
			}
		}
		// A default route is one without a prefix, whatever its metric.
		for i := range routes {
			if routes[i].InterfaceLUID == a.LUID && routes[i].DestinationPrefix.PrefixLength == 0 {
				out.Defaults++
			}
		}
		out.Forwarding = forwarding(a.LUID)
		adapters = append(adapters, out)
	}
	return adapters, nil
}

// winipcfg panics if the library lacks one of these functions.
var (
	iphlpapi         = windows.NewLazySystemDLL("iphlpapi.dll")
	initInterface    = iphlpapi.NewProc("InitializeIpInterfaceEntry")
	getInterfaceInfo = iphlpapi.NewProc("GetIpInterfaceEntry")
)

// forwarding is "unknown" where Windows, or what plays it, does not have the functions.
func forwarding(luid winipcfg.LUID) string {
	if initInterface.Find() != nil || getInterfaceInfo.Find() != nil {
		return "unknown"
	}
	row, err := luid.IPInterface(windows.AF_INET)
	switch {
	case err != nil:
		return "unknown"
	case row.ForwardingEnabled:
		return "on"
	}
	return "off"
}

// restartLimit bounds the restart of HNS, which includes the services that depend on it.
const restartLimit = 2 * time.Minute

// RestartHNS uses PowerShell, which also stops and starts the services that depend on HNS.
func (thisMachine) RestartHNS(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restartLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "powershell", "-NoProfile", "-Command", "Restart-Service hns -Force").
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("restarting the service hns: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
