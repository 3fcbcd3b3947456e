// Package hosthnsd holds the hidden command that a local cluster runs for an emulated Windows host: its HNS, with the
// data plane below it.
package hosthnsd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/dataplane/probe"
	"porthole.dev/porthole/emulator/hnsd/ipstack"
	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/wire"
)

// Command is `host-hnsd`.
func Command() *cobra.Command {
	var o serve.Options
	var dns string
	c := &cobra.Command{
		Use: "host-hnsd", Short: "Be the Host Networking Service of an emulated Windows host", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			daemon.Lean()
			if o.HostDir == "" {
				return errors.New("--host-dir is needed")
			}
			if os.Getuid() != 0 {
				return errors.New("host-hnsd makes network interfaces: run it as root")
			}
			var err error
			if o.DNS, err = ipstack.ParseDNS(dns); err != nil {
				return fmt.Errorf("--dns %s: %w", dns, err)
			}
			if err := os.MkdirAll(filepath.Join(o.HostDir, "hnsd"), 0o755); err != nil {
				return fmt.Errorf("making the state folder of HNS: %w", err)
			}
			missing, err := probe.Run(c.Context(), "")
			if err != nil {
				return err
			}
			for _, m := range missing {
				klog.FromContext(c.Context()).Info("This machine cannot carry everything", "missing", m.Text)
			}
			plane, err := dataplane.New(dataplane.Options{Netns: o.Netns, Uplink: o.Uplink})
			if err != nil {
				return err
			}
			defer plane.Close()
			o.Plane = plane
			return serve.Run(c.Context(), o)
		},
	}

	f := c.Flags()
	f.StringVar(&o.HostDir, "host-dir", "", "folder of the host (required)")
	f.IntVar(&o.Build, "build", 20348, "Windows build of the host")
	f.StringVar(&o.Profile, "profile", "", "HNS by name, such as ws2025-pre, instead of the build's")
	f.StringVar(&o.Latency, "latency", "", "how long its calls take: "+strings.Join(latency.Names(), ", "))
	f.BoolVar(&o.Firewall, "firewall", false, "drop connections to the host that no rule of its firewall allows")
	f.StringVar(&dns, "dns", serve.DNSServers(nil).String(),
		"DNS servers that the host gets with its address: addresses separated by commas, none, or machine for those of this machine's resolv.conf")
	f.DurationVar(&o.Flap, "nic-flap", 0,
		"how long a network card has no link and no addresses when a virtual switch takes it over")
	f.StringVar(&o.Listen, "listen", wire.HNSAddress, "TCP address for the host's DLLs")
	f.StringVar(&o.Netns, "netns", "", "path of the host's network namespace (default: the one it is started in)")
	f.StringVar(&o.Uplink, "uplink", "eth0", "the host's interface towards the outside")
	return c
}
