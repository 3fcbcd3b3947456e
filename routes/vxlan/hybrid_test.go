package vxlan

import (
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/routes/table"
)

// hybrid returns the annotations of a node in the hybrid overlay.
func hybrid(mac string) map[string]string {
	return map[string]string{"k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac": mac}
}

func TestHybridRanges(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want, err   string
	}{
		{"none yet", map[string]string{"other": "10.1.0.0/24"}, "", ""},
		{"a Windows node", map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0/24"},
			"10.132.1.0/24", ""},
		{"a node of OVN", map[string]string{"k8s.ovn.org/node-subnets": `{"default":["10.128.0.0/23"]}`},
			"10.128.0.0/23", ""},
		{"a node of an earlier OVN-Kubernetes",
			map[string]string{"k8s.ovn.org/node-subnets": `{"default":"10.128.0.0/23"}`}, "10.128.0.0/23", ""},
		{"dual stack", map[string]string{"k8s.ovn.org/node-subnets": `{"default":["10.128.0.0/23","fd01::/64"]}`},
			"10.128.0.0/23 fd01::/64", ""},
		{"both: OVN's own counts",
			map[string]string{"k8s.ovn.org/node-subnets": `{"default":["10.128.0.0/23"]}`,
				"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0/24"}, "10.128.0.0/23", ""},
		{"another network only", map[string]string{"k8s.ovn.org/node-subnets": `{"blue":["10.128.0.0/23"]}`}, "",
			`no network "default"`},
		{"no JSON", map[string]string{"k8s.ovn.org/node-subnets": "10.128.0.0/23"}, "",
			"annotation k8s.ovn.org/node-subnets"},
		{"no range in the list", map[string]string{"k8s.ovn.org/node-subnets": `{"default":["x"]}`}, "", "ParsePrefix"},
		{"a number", map[string]string{"k8s.ovn.org/node-subnets": `{"default":7}`}, "", "cannot unmarshal"},
		{"no range", map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.1.0"}, "",
			"annotation k8s.ovn.org/hybrid-overlay-node-subnet"},
	} {
		got, err := HybridRanges(c.annotations)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v; want %q, %q", c.name, got, err, c.want, c.err)
		}
	}
}

// TestHybridPeers: in the hybrid overlay peers are at their nodes' internal addresses, and flannel's annotations mean
// nothing.
func TestHybridPeers(t *testing.T) {
	o := options
	o.Config = Config{VNI: HybridVNI, Port: Port, Hybrid: true}
	for _, p := range []struct {
		name        string
		annotations map[string]string
		want        string
	}{
		{"as Linux writes it", hybrid("aa:bb:cc:dd:ee:02"), "missing"},
		{"as Windows writes it", hybrid("AA-BB-CC-DD-EE-02"), "missing"},
		{"not yet", nil,
			"waiting: node b is not in OVN-Kubernetes' hybrid overlay yet: annotation k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac is missing"},
		{"of flannel", announced("10.0.0.2", `{"VNI":4097,"VtepMAC":"aa:bb:cc:dd:ee:02"}`),
			"waiting: node b is not in OVN-Kubernetes' hybrid overlay"},
		{"no MAC address", hybrid("aa"),
			`refused: node b has annotation k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac: "aa" is not a MAC address`},
	} {
		peers := Peers(o, []table.Node{node("self", "10.0.0.1", "10.1.1.0/24", nil),
			node("b", "10.0.0.2", "10.1.2.0/24", p.annotations)}, entries{})
		if len(peers) != 1 {
			t.Fatalf("%s: %+v", p.name, peers)
		}
		got := strings.TrimSuffix(string(peers[0].State)+": "+peers[0].Reason, ": ")
		if !strings.HasPrefix(got, p.want) {
			t.Errorf("%s: %q, want %q", p.name, got, p.want)
		}
		if peers[0].State == table.Missing &&
			(peers[0].MAC.String() != "aa:bb:cc:dd:ee:02" || peers[0].NextHop.String() != "10.0.0.2") {
			t.Errorf("%s: %+v", p.name, peers[0])
		}
	}

	withoutAddress := table.Node{Name: "b", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")},
		Annotations: hybrid("aa:bb:cc:dd:ee:02")}
	peers := Peers(o, []table.Node{withoutAddress}, entries{})
	if peers[0].State != table.Waiting || !strings.Contains(peers[0].Reason, "no internal address") {
		t.Errorf("a node without an address: %+v", peers[0])
	}
}

// TestHybridSwitch: a Windows host in the hybrid overlay has a policy to each node with VNI 4097, and writes its MAC
// address where ovnkube-node of the Linux nodes reads it, once.
func TestHybridSwitch(t *testing.T) {
	h := &switchHost{Overlay: hnstest.Overlay{Fake: hnstest.New(hns.Version{Major: 13, Minor: 3})},
		told:   map[string]string{},
		config: Config{VNI: HybridVNI, Port: Port, Hybrid: true}}
	h.Provider = selfAddr
	h.nodes = []table.Node{node("self", "10.0.0.1", "10.1.1.0/24", h.told),
		node("ovn", "10.0.0.2", "10.1.2.0/24", hybrid("0a:58:0a:01:02:03"))}
	h.again(t)
	h.makeNetwork(t)

	for range 2 {
		h.Sync(t.Context())
	}
	if got, want := h.policies(), "10.1.2.0/24 vsid 4097 at 10.0.0.2 0A-58-0A-01-02-03\n"; got != want {
		t.Errorf("policies\n%swant\n%s", got, want)
	}
	n, err := h.NetworkByName(t.Context(), "porthole")
	if err != nil {
		t.Fatal(err)
	}
	mac, err := ParseMAC(n.RouterMAC)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.told) != 1 || h.told[annotationHybridMAC] != mac.String() || h.writes != 1 {
		t.Errorf("%d writes of %v, want one of %s", h.writes, h.told, mac)
	}

	// as hybrid-overlay-node.exe wrote it before
	h.told[annotationHybridMAC] = strings.ToUpper(strings.ReplaceAll(mac.String(), ":", "-"))
	h.Sync(t.Context())
	if h.writes != 1 || h.Status().Present != 1 {
		t.Errorf("%d writes, %+v", h.writes, h.Status())
	}
}
