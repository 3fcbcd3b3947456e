package hostroutes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Route is one route by an adapter.
type Route struct {
	Dst     netip.Prefix `json:"destination"`
	NextHop netip.Addr   `json:"nextHop"` // unspecified: on the link itself
	Metric  uint32       `json:"metric"`
}

func (r Route) String() string { return fmt.Sprintf("%s via %s metric %d", r.Dst, r.NextHop, r.Metric) }

// Adapter is one network adapter of the host with its addresses and the routes by it.
type Adapter struct {
	Name   string         `json:"name"`
	Addrs  []netip.Prefix `json:"addresses"`
	Routes []Route        `json:"routes"`
}

func (a Adapter) has(addr netip.Addr) bool {
	return slices.ContainsFunc(a.Addrs, func(p netip.Prefix) bool { return p.Addr() == addr })
}

// Saved is the routes that adapters had before HNS changed a network.
type Saved struct {
	At       time.Time `json:"at"` // of the last Save
	Adapters []Adapter `json:"adapters"`
}

// Guard is how long after a Save lost routes are put back. HNS may take the card over after the call that creates the
// network has returned (flannel-io/flannel#1857 waited more than 5 s for the address). During that time a route that
// somebody deletes comes back too.
const Guard = 2 * time.Minute

// Limit is when routes are given up that cannot be put back, for example because their adapter is gone.
const Limit = 30 * time.Minute

// Lost is a saved route that is not there.
type Lost struct {
	Addr    netip.Addr // an address of the adapter that had it
	Adapter string     // the name of that adapter when it was saved
	Route   Route
	Ready   bool // an adapter has the address, so the route can be added
}

func (l Lost) String() string {
	if !l.Ready {
		return fmt.Sprintf("route %s: no adapter has the address %s of %s", l.Route, l.Addr, l.Adapter)
	}
	return fmt.Sprintf("add route %s to the adapter with %s", l.Route, l.Addr)
}

// Plan is what has to be done about saved routes.
type Plan struct {
	Lost   []Lost
	Forget bool // nothing is left to do: the saved routes are not needed any more
}

// String returns the plan as logs and tests show it.
func (p Plan) String() string {
	var b strings.Builder
	for _, l := range p.Lost {
		fmt.Fprintln(&b, l)
	}
	if p.Forget {
		b.WriteString("forget\n")
	}
	return b.String()
}

// MakePlan compares the saved routes with the host's adapters. It is pure.
func MakePlan(saved Saved, now time.Time, list []Adapter) Plan {
	var p Plan
	for _, s := range saved.Adapters {
		at, addr := holder(s, list)
		for _, r := range s.Routes {
			if at >= 0 && listed(list[at].Routes, r) {
				continue
			}
			p.Lost = append(p.Lost, Lost{Addr: addr, Adapter: s.Name, Route: r, Ready: at >= 0})
		}
	}
	age := now.Sub(saved.At).Abs() // the clock may have been set
	p.Forget = age >= Guard && len(p.Lost) == 0 || age >= Limit
	return p
}

// holder returns the index of the adapter in the list that has an address of a saved one, and that address; -1 if none
// has, with the saved adapter's first address. A file that was edited may hold an adapter without addresses.
func holder(saved Adapter, list []Adapter) (int, netip.Addr) {
	for _, a := range saved.Addrs {
		if i := slices.IndexFunc(list, func(l Adapter) bool { return l.has(a.Addr()) }); i >= 0 {
			return i, a.Addr()
		}
	}
	if len(saved.Addrs) == 0 {
		return -1, netip.Addr{}
	}
	return -1, saved.Addrs[0].Addr()
}

// listed reports whether a list has a route of the same destination and next hop, whatever its metric.
func listed(routes []Route, r Route) bool {
	return slices.ContainsFunc(routes, func(h Route) bool { return h.Dst == r.Dst && h.NextHop == r.NextHop })
}

// Worth returns the routes that have to be saved: of adapters with an address outside the ranges of pods, what the
// host's stack does not make by itself for their addresses, and what does not lie inside those ranges, whose routes
// have keepers of their own.
func Worth(list []Adapter, pods ...netip.Prefix) []Adapter {
	var out []Adapter
	for _, a := range list {
		if len(a.Addrs) == 0 || slices.ContainsFunc(pods,
			func(p netip.Prefix) bool { return p.Contains(a.Addrs[0].Addr()) }) {
			continue
		}
		kept := Adapter{Name: a.Name, Addrs: a.Addrs}
		for _, r := range a.Routes {
			inside := func(p netip.Prefix) bool { return p.Overlaps(r.Dst) && r.Dst.Bits() >= p.Bits() }
			if !made(a.Addrs, r) && !slices.ContainsFunc(pods, inside) {
				kept.Routes = append(kept.Routes, r)
			}
		}
		if len(kept.Routes) > 0 {
			out = append(out, kept)
		}
	}
	return out
}

// made reports whether a host's stack makes the route by itself for an adapter with these addresses: those of its
// subnets, its own addresses, broadcast and multicast.
func made(addrs []netip.Prefix, r Route) bool {
	if !r.NextHop.IsUnspecified() {
		return false
	}
	first := r.Dst.Addr()
	if first.IsMulticast() || first.IsLinkLocalUnicast() && first.Is6() ||
		r.Dst == netip.MustParsePrefix("255.255.255.255/32") {
		return true
	}
	return slices.ContainsFunc(addrs, func(a netip.Prefix) bool {
		return r.Dst == a.Masked() || r.Dst.IsSingleIP() && (first == a.Addr() || first == last(a))
	})
}

// last returns the last address of an IPv4 subnet, which is that of broadcasts.
func last(p netip.Prefix) netip.Addr {
	if !p.Addr().Is4() {
		return netip.Addr{}
	}
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

// Merge returns what has to be saved when older saved routes are there, which may be lost at the moment: the routes of
// both.
func Merge(older Saved, list []Adapter, now time.Time) Saved {
	out := Saved{At: now, Adapters: slices.Clone(list)}
	for _, o := range older.Adapters {
		i, _ := holder(o, out.Adapters)
		if i < 0 {
			out.Adapters = append(out.Adapters, o)
			continue
		}
		routes := slices.Clone(out.Adapters[i].Routes)
		for _, r := range o.Routes {
			if !listed(routes, r) {
				routes = append(routes, r)
			}
		}
		out.Adapters[i].Routes = routes
	}
	return out
}
