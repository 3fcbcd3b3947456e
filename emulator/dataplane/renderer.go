package dataplane

import "porthole.dev/porthole/emulator/desired"

// renderer renders what is desired into the state of the kernel: the rules of one family, and for IPv4 all else.
// It keeps what later small changes build on (update.go).
type renderer struct {
	fam        family
	six        *renderer // for IPv6; nil: no network has it
	facts      Facts
	state      State
	networks   map[string]*desired.Network
	namespaces map[string]*desired.Namespace
	endpoints  map[string]*desired.Endpoint

	// Of load balancers, so that one can change alone.
	balancers map[string]*desired.LoadBalancer
	owner     string                     // the one that is being rendered
	owned     map[string][]place         // by load balancer: its elements
	shared    map[string]int             // elements of snats: how often they are owned
	users     map[string]map[string]bool // by endpoint: the load balancers that name it
	before    map[place]*string          // during a change: what was at each place that it touches; nil: nothing
	chains    []string                   // and the chains that it adds
}

func newRenderer(f Facts) *renderer {
	return &renderer{fam: ip4, facts: f, state: newState(), endpoints: map[string]*desired.Endpoint{},
		networks:   map[string]*desired.Network{},
		namespaces: map[string]*desired.Namespace{}, balancers: map[string]*desired.LoadBalancer{},
		owned:  map[string][]place{},
		shared: map[string]int{}, users: map[string]map[string]bool{}}
}

// twin is a renderer of the IPv6 rules: it shares what there is with r, but has rules of its own.
func (r *renderer) twin() *renderer {
	six := newRenderer(r.facts)
	six.fam = ip6
	six.networks, six.namespaces, six.endpoints = r.networks, r.namespaces, r.endpoints
	six.state.Rejected = r.state.Rejected
	return six
}

// families are the renderers of rules: r itself, and its twin if there is one.
func (r *renderer) families() []*renderer {
	if r.six != nil {
		return []*renderer{r, r.six}
	}
	return []*renderer{r}
}

// elem puts an element where the object that is being rendered wants it.
func (r *renderer) elem(set, key, value string) {
	at := place{set, key}
	if r.owner != "" {
		r.owned[r.owner] = append(r.owned[r.owner], at)
		if set == setSnats {
			r.shared[key]++
		}
	}
	elems := r.state.Rules.Sets[set].Elems
	r.touch(at)
	elems[key] = value
}

// touch remembers what was at a place before the change that is being rendered.
func (r *renderer) touch(at place) {
	if r.before == nil {
		return
	}
	if _, done := r.before[at]; done {
		return
	}
	r.before[at] = nil
	if value, ok := r.state.Rules.Sets[at.set].Elems[at.key]; ok {
		r.before[at] = &value
	}
}

// pick adds a chain that picks backends; many load balancers share it.
func (r *renderer) pick(name string, rules []string) {
	if _, ok := r.state.Rules.Chains[name]; ok {
		return
	}
	r.state.Rules.Chains[name] = Chain{Rules: r.fam.words(rules)}
	if r.before != nil {
		r.chains = append(r.chains, name)
	}
}
