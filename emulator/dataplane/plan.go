package dataplane

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Op is one write to the kernel. Exactly one of the pointers (or Netns) is set beside Verb and ID.
type Op struct {
	Verb   string // add, del, set
	ID     string // the object that it is for; "" for rules
	Netns  string
	Bridge *Bridge
	Addr   netip.Prefix // of Bridge
	Port   *Port
	Tunnel *Tunnel
	Peer   *Peer
	Path   *Path
	Keep   *Keep
	Rules  *Transaction
}

// Drift is one difference between what should be and what is.
type Drift struct {
	ID   string `json:"id,omitempty"` // the object, when it is known
	Text string `json:"text"`         // the write that would mend it
}

// Transaction is one atomic nft script, and the UDP frontends whose backends it changed.
type Transaction struct {
	Table     string // ip or ip6: the family of the table hns
	Lines     []string
	Frontends []string // "10.96.0.10 . 53", or "30053" for a NodePort

	gone, come []element // of a small change, beside Lines: elements that go first, then those that come
}

// Plan is an ordered list of writes; it prints itself one per line.
type Plan []Op

func (p Plan) String() string {
	var b strings.Builder
	for _, op := range p {
		b.WriteString(op.String())
		b.WriteByte('\n')
	}
	return b.String()
}

func (o Op) String() string {
	switch {
	case o.Rules != nil:
		s := "nft " + strings.Join(o.Rules.Lines, "\nnft ")
		for _, f := range o.Rules.Frontends {
			s += "\nmove udp flows of " + f
		}
		return s
	case o.Tunnel != nil || o.Peer != nil || o.Path != nil:
		return o.tunnelString()
	case o.Keep != nil:
		return fmt.Sprintf("%s way of marked packets to %s through %s", o.Verb, o.Keep.Addr, o.Keep.Bridge)
	case o.Port != nil:
		return fmt.Sprintf("%s port %s of %s: %s %v mac %s mtu %d via %s in %s", o.Verb, o.Port.Name, o.Port.Bridge,
			o.Port.Guest, o.Port.Addrs, o.Port.MAC, o.Port.MTU, o.Port.Gateway, o.Port.Netns)
	case o.Bridge != nil && o.Addr.IsValid():
		return fmt.Sprintf("%s address %s on %s", o.Verb, o.Addr, o.Bridge.Name)
	case o.Bridge != nil:
		return fmt.Sprintf("%s bridge %s mtu %d", o.Verb, o.Bridge.Name, o.Bridge.MTU)
	}
	return fmt.Sprintf("%s netns %s", o.Verb, o.Netns)
}

// Diff is what turns have into want. Order: ports that go, networks, rules, ports that come (so that no guest ever
// sends a packet past the rules), networks that go.
func Diff(want, have State) Plan {
	var plan Plan
	for _, name := range sortedKeys(have.Ports) {
		p := have.Ports[name]
		if w, ok := want.Ports[name]; !ok || !w.equal(p) {
			plan = append(plan, Op{Verb: "del", ID: p.ID, Port: &p})
		}
	}
	for _, name := range sortedKeys(want.Namespaces) {
		if _, ok := have.Namespaces[name]; !ok {
			plan = append(plan, Op{Verb: "add", ID: want.Namespaces[name], Netns: name})
		}
	}
	gone, come := diffTunnels(want, have)
	plan = append(plan, gone...)
	for _, addr := range sortedAddrs(have.Keeps) {
		if k := have.Keeps[addr]; k != want.Keeps[addr] {
			plan = append(plan, Op{Verb: "del", ID: k.ID, Keep: &k})
		}
	}
	plan = append(plan, diffBridges(want, have)...)
	plan = append(plan, come...)
	for _, addr := range sortedAddrs(want.Keeps) {
		if k := want.Keeps[addr]; k != have.Keeps[addr] {
			plan = append(plan, Op{Verb: "add", ID: k.ID, Keep: &k})
		}
	}
	if tx := diffRules("ip", want.Rules, have.Rules); tx != nil {
		plan = append(plan, Op{Verb: "set", Rules: tx})
	}
	if tx := diffRules("ip6", want.Rules6, have.Rules6); tx != nil {
		plan = append(plan, Op{Verb: "set", Rules: tx})
	}
	for _, name := range sortedKeys(want.Ports) {
		p := want.Ports[name]
		if h, ok := have.Ports[name]; !ok || !p.equal(h) {
			plan = append(plan, Op{Verb: "add", ID: p.ID, Port: &p})
		}
	}
	for _, name := range sortedKeys(have.Bridges) {
		if _, ok := want.Bridges[name]; !ok {
			b := have.Bridges[name]
			plan = append(plan, Op{Verb: "del", ID: b.ID, Bridge: &b})
		}
	}
	for _, name := range sortedKeys(have.Namespaces) {
		if _, ok := want.Namespaces[name]; !ok {
			plan = append(plan, Op{Verb: "del", ID: have.Namespaces[name], Netns: name})
		}
	}
	return plan
}

func sortedAddrs(m map[netip.Addr]Keep) []netip.Addr {
	return slices.SortedFunc(maps.Keys(m), netip.Addr.Compare)
}

func diffBridges(want, have State) Plan {
	var plan Plan
	for _, name := range sortedKeys(want.Bridges) {
		w := want.Bridges[name]
		h, ok := have.Bridges[name]
		switch {
		case !ok:
			plan = append(plan, Op{Verb: "add", ID: w.ID, Bridge: &w})
		case w.MTU != h.MTU || w.Settings != h.Settings || w.Six != h.Six:
			plan = append(plan, Op{Verb: "set", ID: w.ID, Bridge: &w})
		}
		for _, a := range h.Addrs {
			if !slices.Contains(w.Addrs, a) {
				plan = append(plan, Op{Verb: "del", ID: w.ID, Bridge: &w, Addr: a})
			}
		}
		for _, a := range w.Addrs {
			if !slices.Contains(h.Addrs, a) {
				plan = append(plan, Op{Verb: "add", ID: w.ID, Bridge: &w, Addr: a})
			}
		}
	}
	return plan
}

// elementsPerLine bounds one nft command; the transaction is one all the same.
const elementsPerLine = 500

// diffRules is nil when nothing differs. A set or base chain of another type than ours (an older version of us) makes
// the whole table new, in the same transaction.
func diffRules(table string, want, have Ruleset) *Transaction {
	tx := &Transaction{Table: table}
	if len(want.Sets)+len(want.Chains) == 0 {
		if len(have.Sets)+len(have.Chains) == 0 {
			return nil
		}
		tx.Lines = []string{"add table " + table + " hns", "delete table " + table + " hns"}
		return tx
	}
	tx.Lines = append(tx.Lines, "add table "+table+" hns")
	if !compatible(want, have) {
		tx.Lines = append(tx.Lines, "delete table "+table+" hns", "add table "+table+" hns")
		have = Ruleset{}
	}
	start := len(tx.Lines)
	changed := map[string]bool{}
	for _, name := range sortedKeys(want.Sets) {
		if _, ok := have.Sets[name]; !ok {
			kind := "set"
			if strings.Contains(want.Sets[name].Type, " : ") {
				kind = "map"
			}
			tx.Lines = append(tx.Lines, fmt.Sprintf("add %s %s hns %s { type %s;%s }", kind, table, name, want.Sets[name].Type, setOptions[name]))
		}
	}
	tx.chains(want, have)
	for _, name := range sortedKeys(have.Sets) {
		w, known := want.Sets[name]
		tx.elements("delete", name, have.Sets[name].Elems, w.Elems, changed)
		if !known {
			tx.Lines = append(tx.Lines, "delete set "+table+" hns "+name)
		}
	}
	for _, name := range sortedKeys(want.Sets) {
		tx.elements("add", name, want.Sets[name].Elems, have.Sets[name].Elems, changed)
	}
	for _, name := range sortedKeys(have.Chains) {
		if _, ok := want.Chains[name]; !ok {
			tx.Lines = append(tx.Lines, "flush chain "+table+" hns "+name, "delete chain "+table+" hns "+name)
		}
	}
	if len(tx.Lines) == start && start == 1 {
		return nil
	}
	tx.Frontends = sortedKeys(changed)
	return tx
}

func compatible(want, have Ruleset) bool {
	for name, h := range have.Sets {
		if w, ok := want.Sets[name]; ok && w.Type != h.Type {
			return false
		}
	}
	for name, h := range have.Chains {
		if w, ok := want.Chains[name]; ok && w.Base != h.Base {
			return false
		}
	}
	return true
}

// chains adds all new chains before the first rule, because rules jump to chains.
func (tx *Transaction) chains(want, have Ruleset) {
	var rules []string
	for _, name := range sortedKeys(want.Chains) {
		w := want.Chains[name]
		h, ok := have.Chains[name]
		if ok && slices.Equal(sums(w.Rules), sums(h.Rules)) {
			continue
		}
		switch {
		case ok:
			rules = append(rules, "flush chain "+tx.Table+" hns "+name)
		case w.Base != "":
			tx.Lines = append(tx.Lines, fmt.Sprintf("add chain %s hns %s { %s; }", tx.Table, name, w.Base))
		default:
			tx.Lines = append(tx.Lines, "add chain "+tx.Table+" hns "+name)
		}
		for _, rule := range w.Rules {
			rules = append(rules, fmt.Sprintf("add rule %s hns %s %s comment %q", tx.Table, name, rule, ruleSum(rule)))
		}
	}
	tx.Lines = append(tx.Lines, rules...)
}

// elements writes those of elems that differ from others.
func (tx *Transaction) elements(verb, set string, elems, others map[string]string, changed map[string]bool) {
	var words []string
	for _, key := range sortedKeys(elems) {
		value := elems[key]
		if other, ok := others[key]; ok && other == value {
			continue
		}
		if f := udpFrontend(set, key); f != "" {
			changed[f] = true
		}
		if value != "" && verb == "add" {
			key += " : " + value
		}
		words = append(words, key)
	}
	for chunk := range slices.Chunk(words, elementsPerLine) {
		tx.Lines = append(tx.Lines, fmt.Sprintf("%s element %s hns %s { %s }", verb, tx.Table, set, strings.Join(chunk, ", ")))
	}
}

// udpFrontend names the UDP frontend whose backends an element belongs to: kept flows would stay with the old ones.
func udpFrontend(set, key string) string {
	parts := strings.Split(key, " . ")
	switch {
	case (set == setEP || set == setHostPortVIP) && parts[1] == "17":
		return parts[0] + " . " + parts[2]
	case (set == setNPEP || set == setHostPort) && parts[0] == "17":
		return parts[1]
	}
	return ""
}

// ruleSum is the comment of a rule; the rule read back from the kernel is known by it.
func ruleSum(rule string) string {
	if strings.HasPrefix(rule, "sum:") {
		return rule
	}
	return "sum:" + shortSum(rule, 16)
}

func sums(rules []string) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = ruleSum(r)
	}
	return out
}

// udpBackends lists, per UDP frontend, the backends ("10.244.1.2 . 53") that flows may stay with.
func (rs Ruleset) udpBackends(frontends []string) map[string][]string {
	out := make(map[string][]string, len(frontends))
	for _, f := range frontends {
		vip, port, hasVIP := strings.Cut(f, " . ")
		eps, slots, hp, key := setEP, setSlots, setHostPortVIP, vip+" . 17 . "+port
		if !hasVIP {
			eps, slots, hp, key = setNPEP, setNPSlots, setHostPort, "17 . "+f
		}
		backends := []string{}
		for i := 0; ; i++ {
			index, sticky := rs.Sets[slots].Elems[fmt.Sprintf("%s . %d", key, i)]
			if !sticky {
				index = fmt.Sprint(i)
			}
			b, ok := rs.Sets[eps].Elems[key+" . "+index]
			if !ok {
				break
			}
			if !slices.Contains(backends, b) {
				backends = append(backends, b)
			}
		}
		if b, ok := rs.Sets[hp].Elems[key]; ok {
			backends = append(backends, b)
		}
		out[f] = backends
	}
	return out
}
