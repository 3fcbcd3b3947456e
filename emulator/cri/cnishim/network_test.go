package cnishim

import (
	"encoding/json"
	"testing"
)

func TestStdin(t *testing.T) {
	outer := map[string]json.RawMessage{"runtimeConfig": json.RawMessage(`{"portMappings":[{"hostPort":1}],"dns":{"servers":["10.96.0.10"]}}`)}
	cases := map[string]struct{ conf, want string }{
		"conf without capabilities": {
			`{"cniVersion":"0.3.1","name":"n","type":"win-bridge","ipam":{"type":"host-local"}}`,
			`{"cniVersion":"0.3.1","ipam":{"type":"host-local"},"name":"n","prevResult":{"ips":[]},"type":"win-bridge"}`,
		},
		"conflist, one capability": {
			`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"win-bridge","capabilities":{"dns":true,"bandwidth":true}}]}`,
			`{"cniVersion":"1.0.0","name":"n","prevResult":{"ips":[]},"runtimeConfig":{"dns":{"servers":["10.96.0.10"]}},"type":"win-bridge"}`,
		},
		"no version": {`{"name":"n","type":"x.exe"}`, `{"cniVersion":"0.2.0","name":"n","prevResult":{"ips":[]},"type":"x.exe"}`},
	}

	for name, c := range cases {
		n, err := parseNetwork([]byte(c.conf))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := n.stdin(n.plugins[0], outer, json.RawMessage(`{"ips":[]}`))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got\n%s\nnot\n%s\n%v", name, got, c.want, err)
		}
	}
}

func TestParseNetworkRefuses(t *testing.T) {
	for _, conf := range []string{``, `[]`, `{"name":"n"}`, `{"name":"n","plugins":[]}`, `{"type":"..\\evil"}`, `{"plugins":[{"type":"a"},{}]}`} {
		if _, err := parseNetwork([]byte(conf)); err == nil {
			t.Errorf("%s was accepted", conf)
		}
	}
}
