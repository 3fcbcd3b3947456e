package facts

import (
	"fmt"
	"strings"
	"testing"
)

// nftText is from kube-proxy 1.36 in its mode nftables, shortened: one service with two backends, one with session
// affinity and a node port, whose endpoints have chains of their own.
const nftText = `{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
{"map": {"family": "ip", "name": "service-ips", "table": "kube-proxy", "map": "verdict", "elem": [
 [{"concat": ["10.96.0.10", "udp", 53]}, {"goto": {"target": "service-FY5P-kube-system/kube-dns/udp/dns"}}],
 [{"concat": ["10.96.7.7", "tcp", 80]}, {"goto": {"target": "service-AAAA-default/web/tcp/"}}]]}},
{"map": {"family": "ip", "name": "service-nodeports", "table": "kube-proxy", "map": "verdict", "elem": [
 [{"concat": ["tcp", 30080]}, {"goto": {"target": "external-AAAA-default/web/tcp/"}}]]}},
{"map": {"family": "ip", "name": "no-endpoint-services", "table": "kube-proxy", "map": "verdict"}},
{"rule": {"chain": "service-FY5P-kube-system/kube-dns/udp/dns", "expr": [{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "udp"}},
 {"dnat": {"family": "ip", "addr": {"map": {"key": {"numgen": {"mode": "random", "mod": 2, "offset": 0}},
  "data": {"set": [[0, {"concat": ["10.244.0.2", 53]}], [1, {"concat": ["10.244.0.3", 53]}]]}}}}}]}},
{"rule": {"chain": "external-AAAA-default/web/tcp/", "expr": [{"goto": {"target": "service-AAAA-default/web/tcp/"}}]}},
{"rule": {"chain": "service-AAAA-default/web/tcp/", "expr": [{"vmap": {"key": {"numgen": {"mode": "random", "mod": 1, "offset": 0}},
  "data": {"set": [[0, {"goto": {"target": "endpoint-BBBB-default/web/tcp/__10.244.1.4/8080"}}]]}}}]}},
{"rule": {"chain": "endpoint-BBBB-default/web/tcp/__10.244.1.4/8080", "expr": [{"dnat": {"addr": "10.244.1.4", "port": 8080}}]}}
]}`

// tablesText is from kube-proxy in its mode iptables, shortened.
const tablesText = `*nat
:KUBE-SERVICES - [0:0]
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web" -m tcp --dport 30080 -j KUBE-EXT-AAAA
-A KUBE-EXT-AAAA -j KUBE-SVC-AAAA
-A KUBE-SVC-AAAA ! -s 10.244.0.0/16 -d 10.96.7.7/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-AAAA -m comment --comment "default/web -> 10.244.1.4:8080" -j KUBE-SEP-BBBB
-A KUBE-SEP-BBBB -s 10.244.1.4/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-BBBB -p tcp -m tcp -j DNAT --to-destination 10.244.1.4:8080
-A KUBE-SVC-TCOU -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-1
-A KUBE-SVC-TCOU -j KUBE-SEP-2
-A KUBE-SEP-1 -p udp -m udp -j DNAT --to-destination 10.244.0.2:53
-A KUBE-SEP-2 -p udp -m udp -j DNAT --to-destination 10.244.0.3:53
COMMIT
`

func TestKubeProxyRules(t *testing.T) {
	dns, node := "10.96.0.10 udp 53 [10.244.0.2:53 10.244.0.3:53]", "invalid IP tcp 30080 [10.244.1.4:8080]"
	nft, err := parseNFT([]byte(nftText))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := parseIPTables(tablesText)
	if err != nil {
		t.Fatal(err)
	}

	for i, want := range []string{dns, "10.96.7.7 tcp 80 [10.244.1.4:8080]", node} {
		if len(nft) != 3 {
			t.Fatalf("nft: %+v", nft)
		}
		if got := fmt.Sprint(nft[i].Address, " ", nft[i].Protocol, " ", nft[i].Port, " ",
			nft[i].Backends); got != want {
			t.Errorf("nft: %s, want %s", got, want)
		}
	}
	for i, want := range []string{dns, node} {
		if len(tables) != 2 {
			t.Fatalf("iptables: %+v", tables)
		}
		if got := fmt.Sprint(tables[i].Address, " ", tables[i].Protocol, " ", tables[i].Port, " ",
			tables[i].Backends); got != want {
			t.Errorf("iptables: %s, want %s", got, want)
		}
	}
	six, err := parseIPTables(
		"-A KUBE-SERVICES -d fd00:96::a/128 -p udp -m udp --dport 53 -j KUBE-SVC-6\n-A KUBE-SVC-6 -j KUBE-SEP-6\n" +
			"-A KUBE-SEP-6 -p udp -m udp -j DNAT --to-destination [fd00:244::2]:53\n")
	if got := fmt.Sprintf("%v %v", six, err); !strings.Contains(got, "{fd00:96::a udp 53 [[fd00:244::2]:53] ") {
		t.Errorf("ip6tables: %s", got)
	}
	if _, err := parseNFT([]byte(`{"nftables": [{"map": {"name": "service-ips", "elem": ["what"]}}]}`)); err == nil {
		t.Error("an element that is not understood is taken")
	}
}

// TestSplitRules reads rules for external traffic policy Local: pods and the node itself get all backends, others
// those of this node.
func TestSplitRules(t *testing.T) {
	const all, own = "[10.244.0.4:8080 10.244.1.4:8080]", "[10.244.1.4:8080]"
	nft, err := parseNFT([]byte(`{"nftables": [
{"map": {"name": "service-nodeports", "elem": [[{"concat": ["tcp", 30080]}, {"goto": {"target": "external-AAAA-default/web/tcp/"}}]]}},
{"rule": {"chain": "external-AAAA-default/web/tcp/", "expr": [
 {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": {"prefix": {"addr": "10.244.0.0", "len": 16}}}},
 {"goto": {"target": "service-AAAA-default/web/tcp/"}}]}},
{"rule": {"chain": "external-AAAA-default/web/tcp/", "expr": [
 {"match": {"op": "==", "left": {"fib": {"result": "type", "flags": ["saddr"]}}, "right": "local"}}, {"jump": {"target": "mark-for-masquerade"}}]}},
{"rule": {"chain": "external-AAAA-default/web/tcp/", "expr": [
 {"match": {"op": "==", "left": {"fib": {"result": "type", "flags": ["saddr"]}}, "right": "local"}}, {"goto": {"target": "service-AAAA-default/web/tcp/"}}]}},
{"rule": {"chain": "external-AAAA-default/web/tcp/", "expr": [{"goto": {"target": "local-AAAA-default/web/tcp/"}}]}},
{"rule": {"chain": "mark-for-masquerade", "expr": [{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 16384}}]}},
{"rule": {"chain": "service-AAAA-default/web/tcp/", "expr": [{"dnat": {"addr": "10.244.0.4", "port": 8080}}]}},
{"rule": {"chain": "service-AAAA-default/web/tcp/", "expr": [{"dnat": {"addr": "10.244.1.4", "port": 8080}}]}},
{"rule": {"chain": "local-AAAA-default/web/tcp/", "expr": [{"dnat": {"addr": "10.244.1.4", "port": 8080}}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}

	tables, err := parseIPTables(`-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web" -m tcp --dport 30080 -j KUBE-EXT-AAAA
-A KUBE-EXT-AAAA -s 10.244.0.0/16 -m comment --comment "pod traffic for default/web external destinations" -j KUBE-SVC-AAAA
-A KUBE-EXT-AAAA -m comment --comment "masquerade LOCAL traffic" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-EXT-AAAA -m comment --comment "route LOCAL traffic" -m addrtype --src-type LOCAL -j KUBE-SVC-AAAA
-A KUBE-EXT-AAAA -j KUBE-SVL-AAAA
-A KUBE-SVC-AAAA -j KUBE-SEP-0
-A KUBE-SVC-AAAA -j KUBE-SEP-1
-A KUBE-SVL-AAAA -j KUBE-SEP-1
-A KUBE-SEP-0 -p tcp -m tcp -j DNAT --to-destination 10.244.0.4:8080
-A KUBE-SEP-1 -p tcp -m tcp -j DNAT --to-destination 10.244.1.4:8080
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(nft, tables...) {
		if !r.Split || fmt.Sprint(r.Backends) != all || fmt.Sprint(r.Others) != own {
			t.Errorf("%+v, want %s, and %s for others", r, all, own)
		}
	}
	if len(nft) != 1 || len(tables) != 1 {
		t.Errorf("%d and %d rules, want one each", len(nft), len(tables))
	}
}
