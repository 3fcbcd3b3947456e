package bgp

import (
	"net/netip"
	"sync"
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

// manyNews is how many destinations News lists one by one.
const manyNews = 20

// news are destinations whose best paths have changed. Its zero value has none. It is safe for concurrent use.
type news struct {
	heard func() // called after each; nil: nobody is, and nothing is noted

	mu   sync.Mutex
	dsts map[netip.Prefix]bool
	many bool // there were more
}

func (n *news) hear(paths []*apiutil.Path) {
	if n.heard == nil {
		return
	}
	n.mu.Lock()
	if n.dsts == nil {
		n.dsts = map[netip.Prefix]bool{}
	}
	for _, p := range paths {
		nlri, is := p.Nlri.(*bgp.IPAddrPrefix)
		switch {
		case !is || p.Withdrawal:
		case len(n.dsts) == manyNews:
			n.many = true
		default:
			n.dsts[nlri.Prefix.Masked()] = true
		}
	}
	n.mu.Unlock()
	n.heard()
}

// take returns the destinations and forgets them; none if there were too many.
func (n *news) take() map[netip.Prefix]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	dsts, many := n.dsts, n.many
	n.dsts, n.many = nil, false
	if many {
		return nil
	}
	return dsts
}

// Hear implements listener.
func (g *goBGP) Hear(heard func()) { g.news.heard = heard }

// News implements listener.
func (g *goBGP) News() (paths []Path, ok bool) {
	dsts := g.news.take()
	if len(dsts) == 0 || g.running() != nil {
		return nil, false
	}
	var prefixes []*apiutil.LookupPrefix
	for dst := range dsts {
		prefixes = append(prefixes, &apiutil.LookupPrefix{Prefix: dst.String()})
	}
	paths, err := g.list(prefixes)
	return paths, err == nil && len(paths) > 0
}

// list returns the learnt paths to these destinations; nil: to all.
func (g *goBGP) list(prefixes []*apiutil.LookupPrefix) (learnt []Path, err error) {
	err = g.server.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: bgp.RF_IPv4_UC,
		Prefixes: prefixes},
		func(_ bgp.NLRI, paths []*apiutil.Path) {
			for _, p := range paths {
				if path, ok := toPath(p); ok {
					learnt = append(learnt, path)
				}
			}
		})
	return learnt, err
}
