// Package table is the nft table of one family that carries the policies of HNS on an emulated host: how it is laid
// out, its content as text, and the transaction that leads from one content to another. It is pure: package nft hands
// transactions to the kernel and reads the table back.
package table

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Ruleset is the content of the table.
type Ruleset struct {
	Sets   map[string]Set
	Chains map[string]Chain
}

// NewRuleset is the content of no table.
func NewRuleset() Ruleset { return Ruleset{Sets: map[string]Set{}, Chains: map[string]Chain{}} }

// Set is a set (values all empty) or a map. Keys and values are spelled as nft's numeric output spells them.
type Set struct {
	Type    string // "ipv4_addr . inet_proto : verdict"
	Counted bool   // its elements count packets
	Elems   map[string]string
}

// Chain is one chain. Base is its hook, empty for one that is jumped to. A rule read from the kernel is only its sum:
// every rule carries the sum of its text as its comment.
type Chain struct {
	Base  string
	Rules []string
}

// Place is where an element is.
type Place struct{ Set, Key string }

// Sum is a name of n hexadecimal digits for a text.
func Sum(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:n]
}

// ruleSum is the comment of a rule; the rule read back from the kernel is known by it.
func ruleSum(rule string) string {
	if strings.HasPrefix(rule, "sum:") {
		return rule
	}
	return "sum:" + Sum(rule, 16)
}

func sums(rules []string) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = ruleSum(r)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
