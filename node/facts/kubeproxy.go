package facts

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"porthole.dev/porthole/path"
)

// The maps of kube-proxy's nft table that lead from a frontend to the chain that serves it (kubernetes, pkg/proxy/nftables/README.md).
const (
	serviceIPs       = "service-ips"
	serviceNodePorts = "service-nodeports"
)

// nftObject is one element of what `nft -j list table` prints.
type nftObject struct {
	Map *struct {
		Name string
		Elem []json.RawMessage // pairs of a key and a verdict
	}
	Rule *struct {
		Chain string
		Expr  []any
	}
}

// parseNFT reads the table of kube-proxy in its mode nftables.
func parseNFT(data []byte) ([]path.Rule, error) {
	var doc struct{ NFTables []nftObject }
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("reading nft's output: %w", err)
	}
	chains := map[string][]any{}
	for _, o := range doc.NFTables {
		if o.Rule != nil {
			chains[o.Rule.Chain] = append(chains[o.Rule.Chain], o.Rule.Expr)
		}
	}

	var rules []path.Rule
	for _, o := range doc.NFTables {
		if o.Map == nil || o.Map.Name != serviceIPs && o.Map.Name != serviceNodePorts {
			continue
		}
		for _, raw := range o.Map.Elem {
			r, chain, ok := frontend(raw)
			if !ok {
				return nil, fmt.Errorf("reading nft's output: element %s of map %s is not understood", raw, o.Map.Name)
			}
			r.Backends = backends(chains, chain, map[string]bool{})
			r.Text = "nft chain " + chain
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// frontend reads an element: [{"concat": ["10.96.0.10", "tcp", 53]}, {"goto": {"target": CHAIN}}]; those of node ports have no address.
func frontend(raw json.RawMessage) (r path.Rule, chain string, ok bool) {
	var key struct{ Concat []any }
	var verdict struct{ Goto struct{ Target string } }
	var pair []json.RawMessage
	if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[0], &key) != nil || json.Unmarshal(pair[1], &verdict) != nil {
		return r, "", false
	}
	parts := key.Concat
	if len(parts) == 3 {
		text, _ := parts[0].(string)
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return r, "", false
		}
		r.Address, parts = addr, parts[1:]
	}
	if len(parts) != 2 {
		return r, "", false
	}

	protocol, ok1 := parts[0].(string)
	port, ok2 := parts[1].(float64)
	r.Protocol, r.Port = protocol, uint16(port)
	return r, verdict.Goto.Target, ok1 && ok2 && verdict.Goto.Target != ""
}

// backends collects where a chain and those that it leads to send connections. seen guards against circles.
func backends(chains map[string][]any, chain string, seen map[string]bool) (out []netip.AddrPort) {
	if seen[chain] {
		return nil
	}
	seen[chain] = true

	var visit func(v any, translates bool)
	visit = func(v any, translates bool) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				visit(e, translates)
			}
		case map[string]any:
			if parts, is := v["concat"].([]any); is && translates && len(parts) == 2 {
				out = appendBackend(out, parts[0], parts[1])
			}
			if translates {
				out = appendBackend(out, v["addr"], v["port"])
			}
			if target, is := v["target"].(string); is {
				out = append(out, backends(chains, target, seen)...)
			}
			for key, e := range v {
				visit(e, translates || key == "dnat")
			}
		}
	}

	visit(chains[chain], false)
	return out
}

func appendBackend(out []netip.AddrPort, addr, port any) []netip.AddrPort {
	text, ok1 := addr.(string)
	number, ok2 := port.(float64)
	if a, err := netip.ParseAddr(text); ok1 && ok2 && err == nil {
		return append(out, netip.AddrPortFrom(a, uint16(number)))
	}
	return out
}

// parseIPTables reads what `iptables-save -t nat` prints of kube-proxy in its mode iptables.
func parseIPTables(text string) ([]path.Rule, error) {
	chains := map[string][]map[string]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] != "-A" || !strings.HasPrefix(words[1], "KUBE-") {
			continue
		}
		rule := map[string]string{}
		for i := 2; i+1 < len(words); i++ {
			if strings.HasPrefix(words[i], "-") && (i == 2 || words[i-1] != "!") {
				rule[words[i]] = words[i+1]
			}
		}
		chains[words[1]] = append(chains[words[1]], rule)
	}

	var rules []path.Rule
	for _, from := range []string{"KUBE-SERVICES", "KUBE-NODEPORTS"} {
		for _, r := range chains[from] {
			target := r["-j"]
			if !strings.HasPrefix(target, "KUBE-SVC-") && !strings.HasPrefix(target, "KUBE-EXT-") && !strings.HasPrefix(target, "KUBE-SVL-") {
				continue
			}
			out := path.Rule{Protocol: r["-p"], Text: "iptables chain " + target, Backends: tableBackends(chains, target, map[string]bool{})}
			if _, err := fmt.Sscan(r["--dport"], &out.Port); err != nil {
				return nil, fmt.Errorf("reading iptables-save: a rule of %s has no --dport", from)
			}
			if addr, _, _ := strings.Cut(r["-d"], "/"); addr != "" {
				out.Address, _ = netip.ParseAddr(addr)
			}
			rules = append(rules, out)
		}
	}
	return rules, nil
}

func tableBackends(chains map[string][]map[string]string, chain string, seen map[string]bool) (out []netip.AddrPort) {
	if seen[chain] {
		return nil
	}
	seen[chain] = true
	for _, r := range chains[chain] {
		if to, err := netip.ParseAddrPort(r["--to-destination"]); err == nil {
			out = append(out, to)
		}
		if strings.HasPrefix(r["-j"], "KUBE-S") || strings.HasPrefix(r["-j"], "KUBE-EXT-") {
			out = append(out, tableBackends(chains, r["-j"], seen)...)
		}
	}
	return out
}
