package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"strings"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/internal/platform"
)

// RunHost asks this machine about names, addresses, identifiers and files.
func RunHost(ctx context.Context, o Options) (check.Report, error) {
	r := newRecorder("host", o)
	_, _ = r.ask("account", func() (string, error) {
		u, err := user.Current()
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
	_, _ = r.ask("machine", func() (string, error) {
		h, err := platform.ReadHost(`C:\`)
		return fmt.Sprintf("%+v", h), err
	})
	_, _ = r.ask("uuid.registry", func() (string, error) { return registryText(`SYSTEM\HardwareConfig`, "LastConfig") })
	_, _ = r.ask("cpu.groups", processorGroups)
	r.addresses(ctx)

	_, _ = r.ask("dns.servers", func() (string, error) {
		servers, searches, err := platform.ReadResolver()
		r.value("dns.search", cmp.Or(strings.Join(searches, ", "), "none"))
		return cmp.Or(strings.Join(servers, ", "), "none"), err
	})
	_, _ = r.ask("firewall.inbound", func() (string, error) { return inbound() })
	// The questions above change nothing; files are made with --allow-changes only.
	r.driver()
	if o.Changes {
		r.guarded("files", func() { r.files(ctx) })
	}
	return r.finish(ctx), nil
}

// addresses records the addresses of the host's own name, and those of the adapter with the default route.
func (r *recorder) addresses(ctx context.Context) {
	_, _ = r.ask("name.addresses", func() (string, error) {
		name, err := os.Hostname()
		if err != nil {
			return "", err
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		return join(addrs), err
	})
	_, _ = r.ask("address.default", func() (string, error) {
		list, err := thisMachine{}.Adapters()
		for _, a := range list {
			var four []netip.Addr
			for _, addr := range a.Addrs {
				if addr.Is4() {
					four = append(four, addr)
				}
			}
			if a.Defaults > 0 && len(four) > 0 {
				return join(four), err
			}
		}
		return "none", err
	})
}

// join is "none" for an empty list, so that a line is never empty.
func join(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// registryText returns registry.ErrNotExist if the key or the value is not there.
func registryText(path, name string) (string, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return "", err
	}
	defer k.Close()
	text, _, err := k.GetStringValue(name)
	return text, err
}

var activeProcessorGroups = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetActiveProcessorGroupCount")

// processorGroups counts groups of processors; more than one on machines with more than 64.
func processorGroups() (string, error) {
	if err := activeProcessorGroups.Find(); err != nil {
		return "", err
	}
	n, _, _ := activeProcessorGroups.Call()
	return fmt.Sprint(uint16(n)), nil
}

// firewallPolicy has a key for each profile of the firewall.
const firewallPolicy = `SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\`

// inbound returns for each profile of the firewall whether connections that no rule allows are blocked. A missing
// DefaultInboundAction means that they are.
func inbound() (string, error) {
	var states []string
	for _, profile := range []string{"DomainProfile", "StandardProfile", "PublicProfile"} {
		k, err := registry.OpenKey(registry.LOCAL_MACHINE, firewallPolicy+profile, registry.QUERY_VALUE)
		if errors.Is(err, registry.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		on, _, _ := k.GetIntegerValue("EnableFirewall")
		action, _, missing := k.GetIntegerValue("DefaultInboundAction")
		k.Close()

		state := "allowed"
		if on == 1 && (missing != nil || action == 1) {
			state = "blocked"
		}
		states = append(states, strings.TrimSuffix(profile, "Profile")+"="+state)
	}
	return cmp.Or(strings.Join(states, ", "), "no policy"), nil
}
