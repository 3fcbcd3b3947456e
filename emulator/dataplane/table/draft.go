package table

import (
	"fmt"
	"slices"
	"strings"
)

// Draft is the content of one family's table while it is rendered. It knows whose each element is, so that what one
// owner has can go alone, and what a change of it touches.
type Draft struct {
	Family Family
	Rules  Ruleset

	owner  string             // the one that is being rendered; "": nobody
	owned  map[string][]Place // by owner: its elements
	shared map[string]int     // elements of snats: how often they are owned
	before map[Place]*string  // during a change: what was at each place that it touches; nil: nothing
	chains []string           // and the chains that it adds
}

// NewDraft is a table without sets, chains and elements.
func NewDraft(f Family) *Draft {
	return &Draft{Family: f, Rules: NewRuleset(), owned: map[string][]Place{}, shared: map[string]int{}}
}

// Begin gives the table its sets, which are empty.
func (d *Draft) Begin() { d.Rules.Sets = d.Family.empty() }

// Base adds a chain with a hook, or with the name that others jump to if base is empty.
func (d *Draft) Base(name, base string, rules ...string) {
	d.Rules.Chains[name] = Chain{Base: base, Rules: d.Family.words(rules)}
}

// Own adds a chain for one endpoint and one purpose alone, so that its rules count what that endpoint does, and
// returns the name. prefix names the purpose. The name changes with the content: a change is a new chain and one
// element.
func (d *Draft) Own(prefix, endpoint string, rules []string) string {
	rules = d.Family.words(rules)
	name := prefix + "_" + Sum(endpoint+"\n"+strings.Join(rules, "\n"), 12)
	d.Rules.Chains[name] = Chain{Rules: rules}
	return name
}

// Share adds a chain that many owners use, unless it is there.
func (d *Draft) Share(name string, rules []string) {
	if _, ok := d.Rules.Chains[name]; ok {
		return
	}
	d.Rules.Chains[name] = Chain{Rules: d.Family.words(rules)}
	if d.before != nil {
		d.chains = append(d.chains, name)
	}
}

// For makes owner the owner of the elements that f puts into the table.
func (d *Draft) For(owner string, f func()) {
	d.owner = owner
	defer func() { d.owner = "" }()
	f()
}

// Put puts an element where the object that is being rendered wants it.
func (d *Draft) Put(set, key, value string) {
	at := Place{set, key}
	if d.owner != "" {
		d.owned[d.owner] = append(d.owned[d.owner], at)
		if set == Snats {
			d.shared[key]++
		}
	}
	d.touch(at)
	d.Rules.Sets[set].Elems[key] = value
}

// At returns the element of a place, if there is one.
func (d *Draft) At(at Place) (value string, ok bool) {
	value, ok = d.Rules.Sets[at.Set].Elems[at.Key]
	return value, ok
}

// Of returns the places of an owner's elements.
func (d *Draft) Of(owner string) []Place { return d.owned[owner] }

// Remove takes an owner's elements away. Chains stay, for the next one that needs them.
func (d *Draft) Remove(owner string) {
	for _, at := range d.owned[owner] {
		if at.Set == Snats {
			if d.shared[at.Key]--; d.shared[at.Key] > 0 {
				continue
			}
		}
		d.touch(at)
		delete(d.Rules.Sets[at.Set].Elems, at.Key)
	}
	delete(d.owned, owner)
}

// touch remembers what was at a place before the change that is being rendered.
func (d *Draft) touch(at Place) {
	if d.before == nil {
		return
	}
	if _, done := d.before[at]; done {
		return
	}
	d.before[at] = nil
	if value, ok := d.At(at); ok {
		d.before[at] = &value
	}
}

// StartChange begins to remember what a change touches, until EndChange.
func (d *Draft) StartChange() { d.before, d.chains = map[Place]*string{}, nil }

// EndChange returns the writes of the change: it compares the places that were touched with what is there now.
func (d *Draft) EndChange() *Transaction {
	tx := &Transaction{Table: d.Family.Table}
	changed := map[string]bool{}
	for at, before := range d.before {
		now, ok := d.At(at)
		if ok == (before != nil) && (!ok || now == *before) {
			continue
		}
		if before != nil {
			tx.Gone = append(tx.Gone, Element{Place: at})
		}
		if ok {
			tx.Come = append(tx.Come, Element{at, now})
		}
		if f := udpFrontend(at); f != "" {
			changed[f] = true
		}
	}

	d.before = nil
	order := func(a, b Element) int {
		if a.Set != b.Set {
			return strings.Compare(a.Set, b.Set)
		}
		return strings.Compare(a.Key, b.Key)
	}
	slices.SortFunc(tx.Gone, order)
	slices.SortFunc(tx.Come, order)
	slices.Sort(d.chains)
	for _, name := range d.chains {
		tx.Lines = append(tx.Lines, "add chain "+tx.Table+" hns "+name)
	}
	for _, name := range d.chains {
		for _, rule := range d.Rules.Chains[name].Rules {
			tx.Lines = append(tx.Lines,
				fmt.Sprintf("add rule %s hns %s %s comment %q", tx.Table, name, rule, ruleSum(rule)))
		}
	}

	tx.Frontends = sortedKeys(changed)
	return tx
}
