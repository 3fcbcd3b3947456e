package table

import (
	"encoding/json"
	"fmt"
)

// Count is how often a rule or an element was met.
type Count struct{ Packets, Bytes uint64 }

// Counts are those of one table, read from the kernel. The key of a rule is its chain and position, that of an element
// its place.
type Counts struct {
	Rules map[string][]Count
	Elems map[Place]Count
}

// ParseCounts reads the counters of a table from nft's list of it, in JSON.
func ParseCounts(data []byte) (Counts, error) {
	c := Counts{Rules: map[string][]Count{}, Elems: map[Place]Count{}}
	var doc struct {
		Nftables []struct {
			Map, Set *struct {
				Name string
				Elem []json.RawMessage
			}
			Rule *struct {
				Chain string
				Expr  []struct{ Counter *Count }
			}
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return c, fmt.Errorf("reading nft's counters: %w", err)
	}

	for _, o := range doc.Nftables {
		if o.Rule != nil {
			count := Count{}
			for _, e := range o.Rule.Expr {
				if e.Counter != nil {
					count = *e.Counter
				}
			}
			c.Rules[o.Rule.Chain] = append(c.Rules[o.Rule.Chain], count)
		}
		if o.Map == nil {
			continue
		}
		for _, raw := range o.Map.Elem {
			var pair []json.RawMessage
			if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 {
				continue
			}
			var key any
			var counted struct {
				Elem struct{ Counter Count }
			}
			if err := json.Unmarshal(pair[0], &key); err != nil {
				return c, fmt.Errorf("reading nft's counters: %w", err)
			}
			_ = json.Unmarshal(pair[0], &counted) // a key without a counter is no object
			c.Elems[Place{o.Map.Name, spell(key)}] = counted.Elem.Counter
		}
	}
	return c, nil
}
