package keep

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/routes/table"
)

// prompt is what a Keeper needs to make the routes of a node that has just come without a pass: what the last one saw
// and wanted. A nil prompt keeps nothing.
type prompt[Seen any] struct {
	mu   sync.Mutex
	met  []table.Node // that are not worked on yet
	pace pace         // of work in the goroutine of who tells

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

// alone reports whether no other node has a part of the node's ranges, or its address. If one has, the pass decides
// between them.
func (p *prompt[Seen]) alone(n table.Node) bool {
	return !slices.ContainsFunc(p.nodes, func(other table.Node) bool {
		return other.Name != n.Name &&
			(n.Addr.IsValid() && n.Addr == other.Addr || n.Addr6.IsValid() && n.Addr6 == other.Addr6 ||
				slices.ContainsFunc(other.PodCIDRs,
					func(theirs netip.Prefix) bool { return slices.ContainsFunc(n.PodCIDRs, theirs.Overlaps) }))
	})
}

// Met tells of a node that came or changed. If the mode is Prompt, routes that it needs and that are new are made
// before the next pass, on what the last one saw. Everything else, and everything that is wrong with the node, is left
// to the pass: call Changed afterwards. It never blocks, except for the changes themselves with Options.Inline.
func (k *Keeper[Seen, O]) Met(n table.Node) {
	if !k.meets {
		return
	}
	k.prompt.mu.Lock()
	k.prompt.met = append(k.prompt.met, n)
	k.prompt.mu.Unlock()
	k.promptly()
}

// promptly makes receive run as soon as no pass is running. A single change is made in this goroutine if
// Options.Inline says so: to wake another one takes longer than the change. Of a burst the rest is left to the loop.
func (k *Keeper[Seen, O]) promptly() {
	p := k.prompt
	p.mu.Lock()
	single := k.inline && p.pace.gap(time.Now(), 0) == 0
	p.mu.Unlock()
	if !single || !k.tryBetween(context.Background()) {
		k.hurry()
	}
}

// receive makes new routes of the nodes that were met and of what the mode heard.
func (k *Keeper[Seen, O]) receive(ctx context.Context) {
	met := k.prompt.take()
	if !k.prompt.known {
		return // the pass does it all
	}
	if len(met) <= atOnce {
		k.meet(ctx, met)
	}
	if mode, hears := k.mode.(HearingMode[Seen, O]); hears {
		k.listen(ctx, mode)
	}
}

func (k *Keeper[Seen, O]) meet(ctx context.Context, met []table.Node) {
	for _, n := range met {
		if !k.prompt.alone(n) {
			continue
		}
		made, ok := k.makeNew(ctx, k.planNew(n))
		if !ok {
			return
		}
		if made > 0 {
			k.prompt.nodes = append(k.prompt.nodes, n)
			klog.FromContext(ctx).V(1).Info("Made the routes of a new node", "node", n.Name)
		}
	}
}

func (k *Keeper[Seen, O]) listen(ctx context.Context, mode HearingMode[Seen, O]) {
	nodes, known := k.nodes()
	if !known {
		return
	}
	if news, ok := mode.Heard(k.prompt.seen); ok {
		if made, _ := k.makeNew(ctx, mode.PlanHeard(nodes, news)); made > 0 {
			klog.FromContext(ctx).V(1).Info("Made routes that were just heard of", "changes", made)
		}
	}
}

// makeNew makes the changes that make routes to destinations to which there is none, and returns how many those were.
// If one fails, ok is false, and the pass tries again.
func (k *Keeper[Seen, O]) makeNew(ctx context.Context, ops []O) (made int, ok bool) {
	wanted := k.prompt.wanted
	ops = slices.DeleteFunc(ops, func(o O) bool { return !o.Makes().IsValid() || wanted[o.Makes()] })
	if failed, _ := k.apply(ctx, ops); len(failed) > 0 {
		return 0, false
	}
	for _, o := range ops {
		wanted[o.Makes()] = true
	}
	return len(ops), true
}

// planNew plans for a node that has come, on what the last pass saw.
func (k *Keeper[Seen, O]) planNew(n table.Node) []O {
	if mode, is := k.mode.(PromptMode[Seen, O]); is {
		return mode.PlanNew(n, k.prompt.seen)
	}
	return k.mode.Plan([]table.Node{n}, k.prompt.seen).Ops
}

// atOnce is how many nodes are worked on one by one. The work for each grows with the cluster, and that of a pass does
// not grow with the changes.
const atOnce = 20

// inlineBurst is how many changes in burstPeriod are made in the goroutine of who tells.
const inlineBurst = 5
