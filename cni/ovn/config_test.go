package ovn

import (
	"slices"
	"strings"
	"testing"
)

// seedConf is the configuration of the guide for Kubernetes 1.9, byte for byte, with a subnet in it.
const seedConf = `{
    "name": "net",
    "type": "ovn_cni.exe",
    "bridge": "br-int",
    "isGateway": "true",
    "ipMasq": "false",
    "ipam": {
         "type": "host-local",
         "subnet": "10.244.1.0/24"
         }
}`

// Row 1.64.
func TestSeedConf(t *testing.T) {
	c, err := Parse([]byte(seedConf))
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "net" || c.Bridge != "br-int" || c.CNIVersion != "0.2.0" || c.Subnet.String() != "10.244.1.0/24" ||
		len(c.Remarks) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"n","type":"ovn_cni","isGateway":true,"ipMasq":false}`:                   "",
		`{"cniVersion":"0.3.1","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay.exe"}`: "",
		`{"name":"n","isGateway":"yes"}`:                                                  "neither true nor false",
		`{"type":"ovn_cni"}`:                                                              "has no name",
		`{"name":"n","ipam":{"type":"calico-ipam"}}`:                                      "OVN gives each pod its address",
		`{"name":"n","ipam":{"type":"host-local","subnet":"10.244.1.0"}}`:                 "not a range",
		`{"name":"n",`: "reading the network configuration",
	} {
		_, err := Parse([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", text, err, want)
		}
	}

	c, err := Parse([]byte(`{"name":"n","mtu":1400,"ipMasq":"true","colour":"red"}`))
	want := []string{`field "colour" is not known and has no effect`, `field "mtu" is not known and has no effect`,
		"ipMasq has no effect: OVN passes packets to the outside through the nodes"}
	if err != nil || !slices.Equal(c.Remarks, want) {
		t.Errorf("remarks %q, %v; want %q", c.Remarks, err, want)
	}
}
