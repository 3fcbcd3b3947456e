package routes

import (
	"context"
	"time"

	"porthole.dev/porthole/cni/sweep"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/vxlan"
)

// linuxMaker makes outbound NAT; the bridge is made by the CNI plugin with the first pod, and removed here if it is of
// an earlier pod range.
type linuxMaker struct{ nat podnet.NAT }

func newMaker(Options) (maker, error) { return linuxMaker{}, nil }

func (m linuxMaker) ensure(_ context.Context, o podnet.Options, wanted podnet.Network) (podnet.Made, error) {
	removed, err := podnet.FitBridge(o)
	if err != nil {
		return podnet.Made{}, err
	}
	if wanted.Outbound != nil {
		o = *wanted.Outbound
	}
	changed, err := m.nat.Ensure(o)
	return podnet.Made{Changed: changed || removed}, err
}

// heldBack returns "": the bridge plugin makes the whole network with the first pod after a reboot.
func (m linuxMaker) heldBack() string { return "" }

// adapters returns nil: the bridge plugin enables forwarding.
func (m linuxMaker) adapters() adapterKeeper { return nil }

// sweeper returns nil: the plugins are upstream's, and so are their addresses.
func (m linuxMaker) sweeper() *sweep.Sweeper { return nil }

// hostRoutes returns nil: no network of a Linux node touches the routes that the host has.
func (m linuxMaker) hostRoutes() routeSaver { return nil }

func (m linuxMaker) conf(wanted podnet.Network) podnet.Conf { return wanted.LinuxConf }

// fullCheck is how often the host's routes are compared with those that are wanted although no change was reported. The
// kernel reports every change of its tables. At 5,000 nodes each check costs 50 ms and some megabytes of garbage.
const fullCheck = 2 * time.Minute

// overlayHNS returns nil: on Linux the kernel carries the packets.
func overlayHNS() vxlan.HNS { return nil }
