package attach

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/hns"
)

// FuzzCalls checks that no configuration makes a call panic; that an endpoint has policies which HNS can read, valid
// host ports and the masquerade network among the exceptions; and that nothing is left after DEL.
func FuzzCalls(f *testing.F) {
	for _, extra := range []string{``, `,"ipMasqNetwork":"10.244.0.0/16","loopbackDSR":true`,
		`,"prevResult":{"ips":[null]}`, `,"prevResult":{"ips":[{"address":"10.244.2.3/24"}]}`,
		`,"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"UDP"},{"hostPort":-1}]}`,
		`,"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","Settings":null}}],"ipMasqNetwork":"10.244.0.0/16"`,
		`,"ipMasqNetwork":"::/0","cni.dev/valid-attachments":[{"containerID":"x"}]`} {
		f.Add(extra)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, extra string) {
		c, err := contract.Parse([]byte(`{"name":"porthole","type":"test"` + extra + `}`))
		if err != nil || c.Name != "porthole" {
			return
		}
		c.IPAM, _ = json.Marshal(map[string]string{"subnet": "10.244.2.0/24", "rangeStart": "10.244.2.3",
			"dataDir": dir})

		ctx, h := context.Background(), newHost()
		p := plugin(h)
		if _, err = p.Add(ctx, call(c)); err == nil {
			list, err := h.Endpoints(ctx, testNetwork.ID)
			if err != nil || len(list) != 1 {
				t.Fatalf("%d endpoints: %v", len(list), err)
			}
			checkPolicies(t, c, list[0].Policies)
		}

		_ = p.Check(ctx, call(c))
		_ = p.Status(ctx, c)
		if err := p.GC(ctx, c); err != nil {
			t.Fatal(err)
		}
		if err := p.Del(ctx, call(c)); err != nil || h.Dump() != "" || len(files(t, dir)) > 0 {
			t.Fatalf("DEL: %v, left over: %s %v", err, h.Dump(), files(t, dir))
		}
	})
}

func checkPolicies(t *testing.T, c *contract.Config, list []hns.Policy) {
	excepted := false
	for _, p := range list {
		var m portMapping
		var nat outboundNAT
		switch p.Type {
		case "PortMapping":
			if json.Unmarshal(p.Settings, &m) == nil && len(c.Policies) == 0 && m.outOfRange() {
				t.Fatalf("port mapping %+v", m)
			}
		case "OutBoundNAT":
			if json.Unmarshal(p.Settings, &nat) == nil {
				excepted = excepted || strings.Contains(strings.Join(nat.Exceptions, " "), c.IPMasqNetwork)
			}
		}
		if !json.Valid(p.Settings) || p.Settings[0] != '{' {
			t.Fatalf("policy %s has the settings %s", p.Type, p.Settings)
		}
	}

	if _, err := netip.ParsePrefix(c.IPMasqNetwork); c.IPMasqNetwork != "" && (err != nil || !excepted) {
		t.Fatalf("%q is not among the exceptions of %v", c.IPMasqNetwork, list)
	}
}

func (m portMapping) outOfRange() bool {
	return m.Protocol != 6 && m.Protocol != 17 || m.ExternalPort < 1 || m.ExternalPort > 65535 || m.InternalPort < 1
}
