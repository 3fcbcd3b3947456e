package keep

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/routes/table"
)

// prompt is what a Keeper needs to make the routes of a node that has just come without a pass: what the last one saw and wanted. A nil
// prompt keeps nothing.
type prompt[Seen any] struct {
	mu  sync.Mutex
	met []table.Node // that are not worked on yet

	// Of the last pass, under Loop.passing. known is false if there was none or it failed.
	known  bool
	seen   Seen
	nodes  []table.Node
	wanted map[netip.Prefix]bool // destinations whose routes are there
}

// forget makes nodes wait for the end of the pass that begins.
func (p *prompt[Seen]) forget() {
	if p != nil {
		p.known = false
	}
}

func (p *prompt[Seen]) keep(nodes []table.Node, seen Seen, wanted []table.Wanted) {
	if p == nil {
		return
	}
	p.known, p.seen, p.nodes, p.wanted = true, seen, nodes, make(map[netip.Prefix]bool, len(wanted))
	for _, w := range wanted {
		if w.State == table.Missing || w.State == table.Present {
			p.wanted[w.Dst] = true
		}
	}
}

// take returns the nodes that are not worked on yet.
func (p *prompt[Seen]) take() []table.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	met := p.met
	p.met = nil
	return met
}

// alone reports whether no other node has a part of the node's ranges.
func (p *prompt[Seen]) alone(n table.Node) bool {
	return !slices.ContainsFunc(p.nodes, func(other table.Node) bool {
		return other.Name != n.Name && slices.ContainsFunc(other.PodCIDRs, func(theirs netip.Prefix) bool {
			return slices.ContainsFunc(n.PodCIDRs, theirs.Overlaps)
		})
	})
}

// Met tells of a node that came or changed. If the mode is Prompt, routes that it needs and that are new are made before the next pass,
// on what the last one saw. Everything else, and everything that is wrong with the node, is left to the pass: call Changed afterwards.
// It never blocks.
func (k *Keeper[Seen, O]) Met(n table.Node) {
	if k.prompt == nil {
		return
	}
	k.prompt.mu.Lock()
	k.prompt.met = append(k.prompt.met, n)
	k.prompt.mu.Unlock()
	k.hurry()
}

// receive makes new routes of the nodes that were met.
func (k *Keeper[Seen, O]) receive(ctx context.Context) {
	p := k.prompt
	met := p.take()
	if !p.known || len(met) > atOnce {
		return
	}

	for _, n := range met {
		if !p.alone(n) {
			continue
		}
		ops := slices.DeleteFunc(k.planNew(n), func(o O) bool { return !o.Makes().IsValid() || p.wanted[o.Makes()] })
		if failed, _ := k.apply(ctx, ops); len(failed) > 0 {
			return // the pass tries again
		}
		for _, o := range ops {
			p.wanted[o.Makes()] = true
		}
		if len(ops) > 0 {
			p.nodes = append(p.nodes, n)
			klog.FromContext(ctx).V(1).Info("Made the routes of a new node", "node", n.Name)
		}
	}
}

// planNew plans for a node that has come, on what the last pass saw.
func (k *Keeper[Seen, O]) planNew(n table.Node) []O {
	if mode, is := k.mode.(PromptMode[Seen, O]); is {
		return mode.PlanNew(n, k.prompt.seen)
	}
	return k.mode.Plan([]table.Node{n}, k.prompt.seen).Ops
}

// atOnce is how many nodes are worked on one by one. The work for each grows with the cluster, and that of a pass does not grow with
// the changes.
const atOnce = 20
