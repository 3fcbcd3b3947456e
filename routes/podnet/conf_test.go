package podnet

import (
	"encoding/json"
	"net/netip"
	"testing"
)

// Several nodes on one machine must not share the addresses that host-local remembers: it would hand out an address
// again as soon as its pod is gone, because the last one given is then always of another node's range.
func TestLinuxConfDataDir(t *testing.T) {
	o := Options{PodCIDR: netip.MustParsePrefix("10.244.1.0/24")}
	for _, want := range []string{"", "/state/lin01/cni/data"} {
		o.DataDir = want
		made, err := o.linuxConf()
		if err != nil {
			t.Fatal(err)
		}

		var conf struct {
			Plugins []struct {
				IPAM map[string]any `json:"ipam"`
			} `json:"plugins"`
		}
		if err := json.Unmarshal(made.Data, &conf); err != nil {
			t.Fatal(err)
		}
		got, set := conf.Plugins[0].IPAM["dataDir"]
		if set != (want != "") || set && got != want {
			t.Errorf("dataDir is %v, want %q", got, want)
		}
	}
}
