package dataplane

import (
	"fmt"
	"slices"
	"strings"
)

// Transaction is one atomic nft script, and the UDP frontends whose backends it changed.
type Transaction struct {
	Table     string // ip or ip6: the family of the table hns
	Lines     []string
	Frontends []string // "10.96.0.10 . 53", or "30053" for a NodePort

	gone, come []element // of a small change, beside Lines: elements that go first, then those that come
}

// place is where an element is.
type place struct{ set, key string }

// element is one write to a set or map; its value is empty in a set, and in a deletion.
type element struct {
	place
	value string
}

func (tx *Transaction) String() string {
	s := "nft " + strings.Join(tx.Lines, "\nnft ")
	for _, f := range tx.Frontends {
		s += "\nmove udp flows of " + f
	}
	return s
}

func (tx *Transaction) owner() string { return "" }

// record takes the rules of the whole table from want: a transaction makes the table what it is there.
func (tx *Transaction) record(have *State, want State) {
	if tx.Table == ip6.table {
		have.Rules6 = want.Rules6
	} else {
		have.Rules = want.Rules
	}
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
			tx.Lines = append(tx.Lines,
				fmt.Sprintf("add %s %s hns %s { type %s;%s }", kind, table, name, want.Sets[name].Type, options(name)))
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
		if w, ok := want.Sets[name]; ok && (w.Type != h.Type || w.Counted != h.Counted) {
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
		tx.Lines = append(tx.Lines,
			fmt.Sprintf("%s element %s hns %s { %s }", verb, tx.Table, set, strings.Join(chunk, ", ")))
	}
}

// script is the transaction as nft commands.
func (tx *Transaction) script() string {
	var b strings.Builder
	for _, line := range tx.Lines {
		b.WriteString(line + "\n")
	}
	for _, e := range tx.gone {
		fmt.Fprintf(&b, "delete element %s hns %s { %s }\n", tx.Table, e.set, e.key)
	}
	for _, e := range tx.come {
		text := e.key
		if e.value != "" {
			text += " : " + e.value
		}
		fmt.Fprintf(&b, "add element %s hns %s { %s }\n", tx.Table, e.set, text)
	}
	return b.String()
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
