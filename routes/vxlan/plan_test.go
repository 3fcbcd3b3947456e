package vxlan

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/routes/table"
)

func node(name, addr, pods string, annotations map[string]string) table.Node {
	return table.Node{Name: name, Addr: netip.MustParseAddr(addr),
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix(pods)}, Annotations: annotations}
}

// announced returns flannel's annotations as they are on a real node.
func announced(addr, data string) map[string]string {
	return map[string]string{
		"flannel.alpha.coreos.com/backend-type": "vxlan", "flannel.alpha.coreos.com/backend-data": data,
		"flannel.alpha.coreos.com/public-ip": addr, "flannel.alpha.coreos.com/kube-subnet-manager": "true",
	}
}

var options = Options{Node: "self", Addr: netip.MustParseAddr("10.0.0.1"), Config: Default,
	Cluster: netip.MustParsePrefix("10.1.0.0/16")}

func TestPeers(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want        string // state: part of the reason
	}{
		{"announced by flanneld", announced("10.0.0.2", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`), "missing"},
		{"announced with a MAC address as Windows writes it",
			announced("10.0.0.2", `{"VNI":4096,"VtepMAC":"AA-BB-CC-DD-EE-02"}`), "missing"},
		{"nothing announced", nil, "waiting: node b has not announced its VXLAN endpoint yet"},
		{"flannel on Windows, first write", announced("10.0.0.2", `{"VNI":4096,"VtepMAC":""}`),
			"waiting: node b has not announced the MAC address"},
		{"null", announced("10.0.0.2", "null"), "waiting: node b has not announced the MAC address"},
		{"no address", announced("", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"waiting: node b has not announced its address"},
		{"another VNI", announced("10.0.0.2", `{"VNI":1,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"refused: node b announces VNI 1, this node has 4096"},
		{"no JSON", announced("10.0.0.2", `{`), "refused: node b has annotation flannel.alpha.coreos.com/backend-data"},
		{"no MAC address", announced("10.0.0.2", `{"VNI":4096,"VtepMAC":"aa:bb"}`),
			"refused: node b has annotation flannel.alpha.coreos.com/backend-data: VtepMAC \"aa:bb\" is not a MAC"},
		{"another backend", map[string]string{"flannel.alpha.coreos.com/backend-type": "host-gw"},
			"refused: node b announces flannel's backend host-gw"},
		{"address among its pods", announced("10.1.2.9", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"refused: address 10.1.2.9 of node b lies inside"},
		{"address among other pods", announced("10.1.9.9", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"refused: address 10.1.9.9 of node b lies inside"},
		{"this node's address", announced("10.0.0.1", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"refused: node b announces address 10.0.0.1, which is that of this node"},
		{"no host's address", announced("127.0.0.1", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"refused: address 127.0.0.1 of node b is none that a node can have"},
		{"this node's MAC address", announced("10.0.0.2", `{"VNI":4096,"VtepMAC":"aa:01:00:00:00:00"}`),
			"refused: node b announces the VTEP MAC address aa:01:00:00:00:00, which is that of this node"},
		{"everybody's MAC address", announced("10.0.0.2", `{"VNI":4096,"VtepMAC":"ff:ff:ff:ff:ff:ff"}`),
			"refused: node b announces the VTEP MAC address ff:ff:ff:ff:ff:ff, which is one of a group"},
		{"IPv6 address", announced("fd00::2", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"refused: node b announces address fd00::2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			peers := Peers(options, []table.Node{node("self", "10.0.0.1", "10.1.1.0/24", nil),
				node("b", "10.0.0.2", "10.1.2.0/24", c.annotations)}, entries{mac: MAC{0xaa, 1}})
			if len(peers) != 1 {
				t.Fatalf("peers %+v", peers)
			}

			if got := strings.TrimSuffix(fmt.Sprintf("%s: %s", peers[0].State, peers[0].Reason),
				": "); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if peers[0].State == table.Missing &&
				(peers[0].MAC.String() != "aa:bb:cc:dd:ee:02" || peers[0].NextHop.String() != "10.0.0.2") {
				t.Errorf("peer %+v", peers[0])
			}
		})
	}
}

// TestTwins: of nodes that announce one MAC address one keeps its route: that whose name gives it, or else that to
// which packets go, or else the oldest.
func TestTwins(t *testing.T) {
	twins := func(mac MAC, sinceB, sinceC int64) []table.Node {
		data := fmt.Sprintf(`{"VNI":4096,"VtepMAC":%q}`, mac)
		b, c := node("b", "10.0.0.2", "10.1.2.0/24", announced("10.0.0.2", data)), node("c", "10.0.0.3", "10.1.3.0/24",
			announced("10.0.0.3", data))
		b.Since, c.Since = time.Unix(sinceB, 0), time.Unix(sinceC, 0)
		return []table.Node{b, c,
			node("d", "10.0.0.4", "10.1.4.0/24", announced("10.0.0.4", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:04"}`))}
	}

	mac := MAC{0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x02}
	at := func(addr string) func(MAC) netip.Addr {
		return func(MAC) netip.Addr { return netip.MustParseAddr(addr) }
	}
	for name, c := range map[string]struct {
		nodes []table.Node
		at    func(MAC) netip.Addr
		wins  string
	}{
		"the older one":                      {twins(mac, 1, 2), nil, "b"},
		"the older one, the other way round": {twins(mac, 2, 1), nil, "c"},
		"the one that has it":                {twins(mac, 1, 2), at("10.0.0.3"), "c"},
		"the one whose name gives it":        {twins(firstMAC("c", Default), 1, 2), at("10.0.0.2"), "c"},
	} {
		for _, p := range Peers(options, c.nodes, entries{at: c.at}) {
			want := table.Missing
			if p.Node != c.wins && p.Node != "d" {
				want = table.Refused
			}
			if p.State != want || want == table.Refused &&
				(!p.Untrue || !strings.Contains(p.Reason, "and "+c.wins+" had it first")) {
				t.Errorf("%s: %+v, want %s", name, p.Wanted, want)
			}
		}
	}
}

func TestUnwritten(t *testing.T) {
	mac, err := ParseMAC("00-15-5D-01-02-03")
	if err != nil {
		t.Fatal(err)
	}
	a := Announcement{VNI: 4096, MAC: mac, Public: netip.MustParseAddr("10.0.0.1")}
	have := announced("10.0.0.1", `{"VNI":4096,"VtepMAC":"00:15:5d:01:02:03"}`)
	if left := a.Unwritten(have); left != nil {
		t.Errorf("a node with all annotations lacks %v", left)
	}

	have[AnnotationPublicIPOverwrite] = "192.0.2.1"
	if left := a.Unwritten(have); len(left) != 1 || left[AnnotationPublicIP] != "192.0.2.1" {
		t.Errorf("with public-ip-overwrite: %v", left)
	}
	if left := a.Unwritten(nil); len(left) != 4 {
		t.Errorf("of a node without annotations: %v", left)
	}
	back, ok, err := Read(a.Annotations())
	if back != a || !ok || err != nil {
		t.Errorf("read back %+v, %v, %v", back, ok, err)
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}`:                       "",
		`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}`:                                              "VNI 1: Windows takes 4096 and above only",
		`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096}}`:                                   "UDP port 8472: Windows sends VXLAN to port 4789 only",
		`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":16777216,"Port":4789}}`:                   "VNI 16777216: a VNI has 24 bits",
		`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789,"DirectRouting":true}}`:  `"DirectRouting": Windows cannot`,
		`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789,"GBP":true}}`:            `"GBP": Windows does not know`,
		`{"Network":"10.244.0.0/16","Backend":{"Type":"host-gw"}}`:                                            `flannel's backend is "host-gw"`,
		`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4097,"Port":4789,"Name":"vxlan0","x":1}}`: "",
	} {
		n, err := ParseNetConf([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.Config()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}

	data, err := json.Marshal(Default.NetConf("10.244.0.0/16"))
	if want := `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}`; string(data) != want ||
		err != nil {
		t.Errorf("for flanneld: %s, %v, want %s", data, err, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("vxlan", `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:02"}`, "10.0.0.2")
	f.Add("vxlan", "null", "")
	f.Fuzz(func(t *testing.T, kind, data, addr string) {
		a, _, err := Read(map[string]string{AnnotationBackendType: kind, AnnotationBackendData: data,
			AnnotationPublicIP: addr})
		if err != nil || (a.MAC == MAC{}) || !a.Public.IsValid() {
			return
		}
		if back, _, err := Read(a.Annotations()); back != a || err != nil {
			t.Errorf("%+v read back as %+v, %v", a, back, err)
		}
	})
}
