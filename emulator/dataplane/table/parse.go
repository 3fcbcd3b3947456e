package table

import (
	"encoding/json"
	"fmt"
	"strings"
)

type nftObject struct {
	Set   *nftSet   `json:"set"`
	Map   *nftSet   `json:"map"`
	Chain *nftChain `json:"chain"`
	Rule  *struct {
		Chain, Comment string
	} `json:"rule"`
}

type nftSet struct {
	Name string
	Type any
	Map  any
	Elem []any
	Stmt []any // what each element does beside
}

type nftChain struct {
	Name, Type, Hook string
	Prio             int
}

// ParseRuleset reads nft's list of a table, in JSON, into the words of a Draft.
func ParseRuleset(data []byte) (Ruleset, error) {
	var doc struct{ Nftables []nftObject }
	if err := json.Unmarshal(data, &doc); err != nil {
		return Ruleset{}, fmt.Errorf("reading nft's list: %w", err)
	}

	rs := NewRuleset()
	for _, o := range doc.Nftables {
		switch {
		case o.Set != nil:
			s := Set{Type: spell(o.Set.Type), Elems: map[string]string{}}
			for _, e := range o.Set.Elem {
				s.Elems[spell(e)] = ""
			}
			rs.Sets[o.Set.Name] = s
		case o.Map != nil:
			s := Set{Type: spell(o.Map.Type) + " : " + spell(o.Map.Map), Counted: len(o.Map.Stmt) > 0,
				Elems: map[string]string{}}
			if o.Map.Name == Stick {
				o.Map.Elem = nil // packets fill it
			}
			for _, e := range o.Map.Elem {
				pair, ok := e.([]any)
				if !ok || len(pair) != 2 {
					return rs, fmt.Errorf("reading nft's list: map %s has the element %v", o.Map.Name, e)
				}
				s.Elems[spell(pair[0])] = spell(pair[1])
			}
			rs.Sets[o.Map.Name] = s
		case o.Chain != nil:
			c := Chain{}
			if o.Chain.Hook != "" {
				c.Base = fmt.Sprintf("type %s hook %s priority %d", o.Chain.Type, o.Chain.Hook, o.Chain.Prio)
			}
			rs.Chains[o.Chain.Name] = c
		case o.Rule != nil:
			c := rs.Chains[o.Rule.Chain]
			sum := o.Rule.Comment
			if !strings.HasPrefix(sum, "sum:") {
				sum = "sum:unknown"
			}
			c.Rules = append(c.Rules, sum)
			rs.Chains[o.Rule.Chain] = c
		}
	}
	return rs, nil
}

// spell spells one JSON value of nft as nft's own text does.
func spell(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return fmt.Sprint(uint64(v))

	case []any:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = spell(p)
		}
		return strings.Join(parts, " . ")

	case map[string]any:
		for kind, inner := range v {
			switch kind {
			case "concat":
				return spell(inner)
			case "elem": // with a counter
				if m, ok := inner.(map[string]any); ok {
					return spell(m["val"])
				}
			case "goto", "jump":
				if m, ok := inner.(map[string]any); ok {
					return kind + " " + spell(m["target"])
				}
			}
		}
	}
	return fmt.Sprint(v)
}
