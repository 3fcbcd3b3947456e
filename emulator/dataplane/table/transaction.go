package table

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

	// Gone and Come are of a small change, beside Lines: elements that go first, then those that come.
	Gone, Come []Element
}

// Element is one write to a set or map; its value is empty in a set, and in a deletion.
type Element struct {
	Place
	Value string
}

func (tx *Transaction) String() string {
	s := "nft " + strings.Join(tx.Lines, "\nnft ")
	for _, f := range tx.Frontends {
		s += "\nmove udp flows of " + f
	}
	return s
}

// elementsPerLine bounds one nft command; the transaction is one all the same.
const elementsPerLine = 500

// Diff is nil when nothing differs. A set or base chain of another type than ours (an older version of us) makes
// the whole table new, in the same transaction.
func Diff(table string, want, have Ruleset) *Transaction {
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
		if f := udpFrontend(Place{set, key}); f != "" {
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

// Script is the transaction as nft commands.
func (tx *Transaction) Script() string {
	var b strings.Builder
	for _, line := range tx.Lines {
		b.WriteString(line + "\n")
	}
	for _, e := range tx.Gone {
		fmt.Fprintf(&b, "delete element %s hns %s { %s }\n", tx.Table, e.Set, e.Key)
	}
	for _, e := range tx.Come {
		text := e.Key
		if e.Value != "" {
			text += " : " + e.Value
		}
		fmt.Fprintf(&b, "add element %s hns %s { %s }\n", tx.Table, e.Set, text)
	}
	return b.String()
}
