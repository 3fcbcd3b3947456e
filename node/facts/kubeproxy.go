package facts

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"porthole.dev/porthole/path"
)

// Chains for clients outside of the cluster begin so. With external traffic policy Local they send pods, and the node
// itself, to the backends of all nodes: "goto" or "-j" with a condition on the source. Everybody else falls through to
// those of the node.
const (
	nftExternal      = "external-"
	iptablesExternal = "KUBE-EXT-"
)

// The maps of kube-proxy's nft table that lead from a frontend to the chain that serves it (kubernetes,
// pkg/proxy/nftables/README.md).
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
	// Rules of a chain are in their order; maps lead from frontends to chains.
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
			splitNFT(&r, chains, chain)
			r.Text = "nft chain " + chain
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// frontend reads an element: [{"concat": ["10.96.0.10", "tcp", 53]}, {"goto": {"target": CHAIN}}]; those of node ports
// have no address.
func frontend(raw json.RawMessage) (r path.Rule, chain string, ok bool) {
	var key struct{ Concat []any }
	var verdict struct{ Goto struct{ Target string } }
	var pair []json.RawMessage
	if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[0], &key) != nil ||
		json.Unmarshal(pair[1], &verdict) != nil {
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

// splitNFT tells the backends of different clients apart, if a chain does.
func splitNFT(r *path.Rule, chains map[string][]any, chain string) {
	if !strings.HasPrefix(chain, nftExternal) {
		return
	}
	var inside, others []any
	for _, rule := range chains[chain] {
		if ofSource(rule) {
			inside = append(inside, rule)
		} else {
			others = append(others, rule)
		}
	}
	if len(inside) > 0 {
		r.Split = true
		r.Backends = backendsOfRules(chains, inside, map[string]bool{chain: true})
		r.Others = backendsOfRules(chains, others, map[string]bool{chain: true})
	}
}

// ofSource reports whether a rule compares the source of a packet with anything: an address, or its type (fib).
func ofSource(rule any) bool {
	list, _ := rule.([]any)
	for _, e := range list {
		statement, _ := e.(map[string]any)
		match, _ := statement["match"].(map[string]any)
		left, _ := match["left"].(map[string]any)
		payload, _ := left["payload"].(map[string]any)
		fib, _ := left["fib"].(map[string]any)
		if payload["field"] == "saddr" || strings.Contains(fmt.Sprint(fib["flags"]), "saddr") {
			return true
		}
	}
	return false
}

// backends collects where a chain and those that it leads to send connections. seen guards against circles.
func backends(chains map[string][]any, chain string, seen map[string]bool) (out []netip.AddrPort) {
	if seen[chain] {
		return nil
	}
	seen[chain] = true
	return backendsOfRules(chains, chains[chain], seen)
}

// backendsOfRules collects the addresses to which rules translate, and those of chains that they
// lead to.
func backendsOfRules(chains map[string][]any, rules []any, seen map[string]bool) (out []netip.AddrPort) {
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

	visit(rules, false)
	return out
}

// appendBackend adds nothing if the two are no address and port.
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
		// Options after "!" are negations, which are left out.
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
			if !strings.HasPrefix(target, "KUBE-SVC-") && !strings.HasPrefix(target, "KUBE-EXT-") &&
				!strings.HasPrefix(target, "KUBE-SVL-") {
				continue
			}
			out := path.Rule{Protocol: r["-p"], Text: "iptables chain " + target,
				Backends: tableBackends(chains, target, map[string]bool{})}
			splitTables(&out, chains, target)
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

// splitTables is splitNFT for iptables.
func splitTables(r *path.Rule, chains map[string][]map[string]string, chain string) {
	if !strings.HasPrefix(chain, iptablesExternal) {
		return
	}
	var inside, others []map[string]string
	for _, rule := range chains[chain] {
		if rule["-s"] != "" || rule["--src-type"] != "" {
			inside = append(inside, rule)
		} else {
			others = append(others, rule)
		}
	}
	if len(inside) > 0 {
		r.Split = true
		r.Backends = tableBackendsOf(chains, inside, map[string]bool{chain: true})
		r.Others = tableBackendsOf(chains, others, map[string]bool{chain: true})
	}
}

// tableBackends and tableBackendsOf follow the chains, each once.
func tableBackends(chains map[string][]map[string]string, chain string, seen map[string]bool) (out []netip.AddrPort) {
	if seen[chain] {
		return nil
	}
	seen[chain] = true
	return tableBackendsOf(chains, chains[chain], seen)
}

func tableBackendsOf(chains map[string][]map[string]string, rules []map[string]string,
	seen map[string]bool) (out []netip.AddrPort) {
	for _, r := range rules {
		if to, err := netip.ParseAddrPort(r["--to-destination"]); err == nil {
			out = append(out, to)
		}
		if strings.HasPrefix(r["-j"], "KUBE-S") || strings.HasPrefix(r["-j"], "KUBE-EXT-") {
			out = append(out, tableBackends(chains, r["-j"], seen)...)
		}
	}
	return out
}
