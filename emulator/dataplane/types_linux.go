package dataplane

import (
	"sync"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// Options of a data plane.
type Options struct {
	Netns  string // path of the host's network namespace; "" means the caller's own
	Uplink string // interface that leads out of the host; "" means eth0
	Nft    string // program; "" means nft from PATH
}

// DataPlane carries one host. Its methods may be called from several goroutines.
type DataPlane struct {
	*IPStack
	opts   Options
	handle *netlink.Handle

	mu    sync.Mutex
	known bool  // have is what the kernel holds, as far as only we write
	have  State // what was last written or read

	live  *renderer // the last rendering, if the kernel carries all of it
	fast  *nftables.Conn
	mover mover
}

// mover moves UDP flows behind small changes.
type mover struct {
	pending map[string]map[string]bool // by table, frontends; under DataPlane.mu
	done    chan struct{}              // closed when the goroutine has ended; nil if none runs; under DataPlane.mu
	closed  bool                       // under DataPlane.mu
}
