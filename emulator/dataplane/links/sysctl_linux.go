package links

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/kernel"
)

// hostSettings: pods are routed, not bridged, to each other and out (which interfaces may forward is decided in
// package hoststack); rules are not evaluated on the bridged path.
var hostSettings = map[string]string{
	"net/ipv4/ip_forward":                 "1",
	"net/ipv4/conf/all/send_redirects":    "0",
	"net/ipv4/conf/all/rp_filter":         "0",
	"net/bridge/bridge-nf-call-iptables":  "0",
	"net/bridge/bridge-nf-call-ip6tables": "0",
}

// bridgeSettings: the bridge answers ARP for every pod, so that pods reach each other through it, and at once (the
// kernel would wait up to 0.8 s before each proxy answer). That of an overlay or a NAT network also answers for
// addresses of its subnet that the host reaches elsewhere: in a stretched overlay, pods of other hosts.
func bridgeSettings(b kernel.Bridge) map[string]string {
	dir, dir6 := "net/ipv4/conf/"+b.Name+"/", "net/ipv6/conf/"+b.Name+"/"
	settings := map[string]string{"net/ipv4/neigh/" + b.Name + "/proxy_delay": "0", dir + "proxy_arp_pvlan": "1",
		dir + "send_redirects":      "0",
		dir + "promote_secondaries": "1", dir + "rp_filter": "0",
		dir6 + "disable_ipv6": "1"}
	if b.Switched {
		settings[dir+"proxy_arp"] = "1"
	}
	if b.Six {
		settings[dir6+"disable_ipv6"], settings[dir6+"accept_dad"], settings[dir6+"accept_ra"] = "0", "0", "0"
		settings["net/ipv6/conf/all/forwarding"] = "1"
	}
	return settings
}

// errSetting says that a kernel setting is not as it should be.
var errSetting = errors.New("kernel setting differs")

// sysctls compares kernel settings of the current network namespace and, if asked, writes those that differ. One that
// this kernel does not have is passed over.
func sysctls(values map[string]string, write bool) error {
	for name, value := range values {
		path := filepath.Join("/proc/sys", name)
		now, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && strings.TrimSpace(string(now)) == value {
			continue
		}
		if err == nil && !write {
			return fmt.Errorf("%s: %w", name, errSetting)
		}
		if err == nil {
			err = os.WriteFile(path, []byte(value), 0o644)
		}
		if err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
