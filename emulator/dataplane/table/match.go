package table

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// MatchPorts returns the nft match of a port field, "" for no ranges, which match all. It merges ranges that overlap
// or touch, because nft refuses a set with overlapping ranges.
func MatchPorts(field string, ranges []desired.PortRange) string {
	if len(ranges) == 0 {
		return ""
	}
	sorted := slices.Clone(ranges)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].First < sorted[j].First })
	var merged []desired.PortRange
	for _, p := range sorted {
		p.Last = max(p.Last, p.First)
		if n := len(merged); n > 0 && int(p.First) <= int(merged[n-1].Last)+1 {
			merged[n-1].Last = max(merged[n-1].Last, p.Last)
			continue
		}
		merged = append(merged, p)
	}

	var words []string
	for _, p := range merged {
		if p.First == p.Last {
			words = append(words, fmt.Sprint(p.First))
		} else {
			words = append(words, fmt.Sprintf("%d-%d", p.First, p.Last))
		}
	}
	return fmt.Sprintf("%s { %s } ", field, strings.Join(words, ", "))
}

// MatchPrefixes matches field against the family's prefixes, each of which is in no other (nft refuses overlaps). It is
// empty when everything matches, and matches nothing when there is no prefix of the family.
func (f Family) MatchPrefixes(field string, prefixes []netip.Prefix) string {
	var ours []netip.Prefix
	for _, p := range prefixes {
		if p.IsValid() && f.Has(p.Addr()) {
			ours = append(ours, p.Masked())
		}
	}

	slices.SortFunc(ours, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})

	var kept []netip.Prefix
	for _, p := range ours {
		if !slices.ContainsFunc(kept, func(k netip.Prefix) bool { return k.Contains(p.Addr()) }) {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return field + " " + f.none + " "
	}
	if kept[0].Bits() == 0 {
		return ""
	}
	return fmt.Sprintf("%s { %s } ", field, List(kept))
}

// List joins items as nft has them in a set.
func List[T any](items []T) string {
	words := make([]string, len(items))
	for i, it := range items {
		words[i] = fmt.Sprint(it)
	}
	return strings.Join(words, ", ")
}
