package bgp

import (
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// unseen is how long a change of paths may wait that does not change which are the best.
const unseen = 20 * time.Millisecond

// wakeLater wakes once for all calls in a short time.
func (g *goBGP) wakeLater() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.settling == nil {
		g.settling = time.AfterFunc(unseen, func() {
			g.mu.Lock()
			g.settling = nil
			g.mu.Unlock()
			g.wake.Wake()
		})
	}
}

// list returns the learnt paths.
func (g *goBGP) list() (learnt []Path, err error) {
	err = g.server.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: bgp.RF_IPv4_UC},
		func(_ bgp.NLRI, paths []*apiutil.Path) {
			for _, p := range paths {
				if path, ok := toPath(p); ok {
					learnt = append(learnt, path)
				}
			}
		})
	return learnt, err
}
