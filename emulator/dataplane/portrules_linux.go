package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// PortRules returns the rules of an endpoint with their counts; ok is false if nothing of that id is desired. It reads
// the whole tables, which takes up to a second with thousands of load balancers.
func (d *DataPlane) PortRules(ctx context.Context, all desired.State, id string) (rules PortRules, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	facts, err := d.facts()
	if err != nil {
		return PortRules{}, false, err
	}
	have := map[string]counts{}
	for _, table := range []string{ip4.table, ip6.table} {
		var out bytes.Buffer
		if there, err := tableExists(ctx, d, table, "hns"); err != nil {
			return PortRules{}, false, err
		} else if !there {
			continue
		}
		if err := d.nft(ctx, nil, &out, "-j", "-n", "list", "table", table, "hns"); err != nil {
			return PortRules{}, false, err
		}
		if have[table], err = parseCounts(out.Bytes()); err != nil {
			return PortRules{}, false, err
		}
	}

	rules, ok = portRules(all, id, facts, have)
	if rules.Port == "" {
		return rules, ok, nil
	}
	link, err := d.linkNamed(rules.Port)
	if err != nil || link == nil || link.Attrs().Statistics == nil {
		return rules, ok, err
	}
	s := link.Attrs().Statistics // of this side: what the endpoint sends is received here
	rules.Stats = &PortStats{PacketsSent: s.RxPackets, BytesSent: s.RxBytes, PacketsReceived: s.TxPackets,
		BytesReceived: s.TxBytes, Dropped: s.RxDropped + s.TxDropped}
	return rules, ok, nil
}

// Traffic returns what an endpoint has sent and received since its port was made. One without a port has none.
func (s *IPStack) Traffic(endpoint string) (t desired.Traffic) {
	link, err := s.linkNamed(portName(endpoint))
	if err != nil || link == nil || link.Attrs().Statistics == nil {
		return t
	}
	c := link.Attrs().Statistics // of the switch's side, which receives what the endpoint sends
	t.BytesSent, t.PacketsSent, t.DroppedOutgoing = c.RxBytes, c.RxPackets, c.RxDropped
	t.BytesReceived, t.PacketsReceived, t.DroppedIncoming = c.TxBytes, c.TxPackets, c.TxDropped
	return t
}

// parseCounts reads the counters of a table from nft's JSON.
func parseCounts(data []byte) (counts, error) {
	c := counts{rules: map[string][]Count{}, elems: map[place]Count{}}
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
			c.rules[o.Rule.Chain] = append(c.rules[o.Rule.Chain], count)
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
			c.elems[place{o.Map.Name, words(key)}] = counted.Elem.Counter
		}
	}
	return c, nil
}

// tableExists reports whether there is a table of that name in the family.
func tableExists(ctx context.Context, d *DataPlane, family, table string) (bool, error) {
	var tables bytes.Buffer
	if err := d.nft(ctx, nil, &tables, "list", "tables", family); err != nil {
		return false, err
	}
	return strings.Contains("\n"+tables.String(), "\ntable "+family+" "+table+"\n"), nil
}
