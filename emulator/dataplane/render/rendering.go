// Package render says what the kernel of an emulated host should hold for what HNS says: bridges, ports, tunnels and,
// through package rules, the nft tables. A change of load balancers or backends alone is rendered on top of what is
// rendered already. It is pure.
package render

import (
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/rules"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// Rendering is what the kernel should hold, and what later small changes build on.
type Rendering struct {
	State kernel.State // a Change changes it

	host      *rules.Host
	overlays  overlays
	four, six *rules.Table // six is nil if no network has IPv6
}

func newRendering(f kernel.Facts) *Rendering {
	r := &Rendering{State: kernel.NewState(), host: rules.NewHost(f)}
	r.overlays = overlays{r.host, &r.State}
	r.four = rules.New(table.IPv4, r.host)
	r.State.Rejected, r.State.Keeps = r.host.Rejected, r.four.Balancers.Keeps
	return r
}

// Host is what the rendering was made of.
func (r *Rendering) Host() *rules.Host { return r.host }

// Families are the rules of the families that the host has.
func (r *Rendering) Families() []*rules.Table {
	if r.six != nil {
		return []*rules.Table{r.four, r.six}
	}
	return []*rules.Table{r.four}
}

// balance renders a load balancer in the table of its family.
func (r *Rendering) balance(lb *desired.LoadBalancer) {
	switch {
	case !lb.IPv6:
		r.four.Balancers.Render(lb)
	case r.six != nil:
		r.six.Balancers.Render(lb)
	}
}
