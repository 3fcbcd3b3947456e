package routes

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/ovn"
)

// ovnFlags are those of the mode ovn.
type ovnFlags struct{ remote, database, encapType, encapIP, datapath, uplink string }

func (f *ovnFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.remote, "ovn-remote", "",
		"mode ovn: OVN's southbound database, for example tcp:10.99.0.11:6642 (required there)")
	fs.StringVar(&f.database, "ovn-db", platform.OVSDatabase,
		"mode ovn: database of this node's Open vSwitch, unix:PATH or tcp:HOST:PORT")
	fs.StringVar(&f.encapType, "ovn-encap-type", "geneve",
		"mode ovn: tunnels between nodes: geneve, vxlan, or both separated by a comma; two nodes need one in common")
	fs.StringVar(&f.encapIP, "ovn-encap-ip", "",
		"mode ovn: this node's address for tunnels; empty: --node-ip, or the address of the Node object, also when it changes")
	fs.StringVar(&f.datapath, "ovn-datapath", "system",
		"mode ovn: datapath of br-int: system is the kernel's (on Windows the extension's), netdev that of ovs-vswitchd")
	fs.StringVar(&f.uplink, "ovn-uplink", "",
		"mode ovn, Linux, with --ovn-datapath=netdev: network card that becomes a port of the bridge br-ex, which takes over its addresses, because ovs-vswitchd\n"+
			"sends the tunnels itself; best one that only carries tunnels. Empty: the kernel sends them")
}

// resolve checks the flags of the mode ovn. EncapIP is not valid if it was not given.
func (f ovnFlags) resolve() (o ovn.Options, err error) {
	o = ovn.Options{Remote: f.remote, Database: f.database, EncapType: f.encapType, Datapath: f.datapath,
		Uplink: f.uplink}
	if f.remote == "" {
		return o,
			errors.New(
				"--ovn-remote is required for --mode ovn: the southbound database, for example tcp:10.99.0.11:6642")
	}
	if _, _, err := ovsdb.Parse(f.database); err != nil {
		return o, fmt.Errorf("--ovn-db: %w", err)
	}

	if err := ovn.CheckEncap(f.encapType); err != nil {
		return o, fmt.Errorf("--ovn-encap-type: %w", err)
	}
	if f.datapath != "system" && f.datapath != "netdev" {
		return o, fmt.Errorf("--ovn-datapath %q: system or netdev", f.datapath)
	}
	if f.uplink != "" && f.datapath != "netdev" {
		return o,
			errors.New(
				"--ovn-uplink is for --ovn-datapath=netdev: the kernel's datapath sends tunnels by the host's own routes")
	}
	if f.encapIP != "" {
		if o.EncapIP, err = netip.ParseAddr(f.encapIP); err != nil {
			return o, fmt.Errorf("--ovn-encap-ip %q is not an address", f.encapIP)
		}
	}
	return o, nil
}
