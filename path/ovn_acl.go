package path

import (
	"cmp"
	"fmt"
	"slices"
)

// stage is when ACLs judge a packet on a switch: when it comes in, before and after the load balancers, and when it
// goes out.
type stage int

const (
	early stage = iota
	late
	egress
)

func (a ACL) stage() stage {
	switch {
	case a.Out:
		return egress
	case a.Late:
		return late
	}
	return early
}

// allowed judges the packet by the ACLs of a switch. Answers pass: the switches track connections, because they have
// load balancers.
func (w inOVN) allowed(o *OVN, s *LogicalSwitch, p logicalPacket, at stage) bool {
	if w.isAnswer {
		return true
	}
	list := slices.Clone(s.ACLs)
	list = slices.DeleteFunc(list, func(a ACL) bool { return a.stage() != at })
	slices.SortStableFunc(list, func(a, b ACL) int { return cmp.Compare(b.Priority, a.Priority) })

	for _, a := range list {
		text := fmt.Sprintf("ACL %s of switch %s, priority %d: %s if %s", cmp.Or(a.Name, "without a name"), s.Name,
			a.Priority, a.Action, a.Match)
		result := p.matches(a.Match, o.Sets)
		switch {
		case result == no:
			continue
		case result == yes && slices.Contains([]string{"allow", "allow-related", "allow-stateless"}, a.Action):
			w.hop(w.at, "acl", "%s", text)
			return true
		case result == yes && (a.Action == "drop" || a.Action == "reject"):
			return w.wrong(w.at, "acl", text,
				Wrong{Found: fmt.Sprintf("an ACL of logical switch %s has the action %s for packets from %s to %s",
					s.Name, a.Action, p.src, p.dst),
					Should: "none, or one of higher priority that allows them",
					Who:    "whoever made the ACL (`ovn-nbctl acl-list " + s.Name + "`): porthole makes none"})
		}
		w.hop(w.at, "acl", "%s", text)
		return w.unknown(w.at, "acl",
			"whether this ACL is about the packet depends on more than addresses and ports: `ovn-trace` tells")
	}
	if o.DropsUnmatched && len(s.ACLs) > 0 {
		return w.wrong(w.at, "acl", "default of switch "+s.Name,
			Wrong{Found: "no ACL of logical switch " + s.Name + " allows packets from " + p.src.String() + " to " +
				p.dst.String(),
				Should: "an ACL that allows them, or NB_Global options:default_acl_drop=false",
				Who:    "whoever made the ACLs and that option: porthole makes none"})
	}
	return true
}
