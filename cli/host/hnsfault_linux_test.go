package host

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestSpoilWords holds what the words of a command become on the control interface.
func TestSpoilWords(t *testing.T) {
	for _, c := range []struct{ command, call, body string }{
		{"latency ws2019", "POST /latency", `{"profile":"ws2019"}`},
		{"scenario F-4", "POST /scenario", `{"name":"F-4"}`},
		{"service stopped keep=half for=5000", "POST /service", `{"state":"stopped","keep":"half","forMs":5000}`},
		{"service running lose=Network,LoadBalancer", "POST /service",
			`{"state":"running","lose":["Network","LoadBalancer"]}`},
		{"lose LoadBalancer 50% plane", "POST /lose", `{"kind":"LoadBalancer","percent":50,"planeOnly":true}`},
		{"lose Endpoint 3 match=10.244", "POST /lose", `{"kind":"Endpoint","count":3,"match":"10.244"}`},
		{"lose Network renew", "POST /lose", `{"kind":"Network","renew":true}`},
		{"pool 20", "POST /pool", `{"size":20}`},
		{"pool", "GET /pool", ""},
		{"dns 10.99.0.53,2001:db8::53", "POST /dns", `{"servers":["10.99.0.53","2001:db8::53"]}`},
		{"dns none", "POST /dns", `{"servers":[]}`},
		{"dns machine", "POST /dns", `{"servers":null}`},
		{"dns", "GET /dns", ""},
		{"repair", "POST /repair", ""},
		{"rules vEthernet%20x", "GET /rules/vEthernet%2520x", ""},
	} {
		var got, body string
		h := hnsCall{out: &bytes.Buffer{},
			call: func(_ context.Context, method, path string, data []byte) ([]byte, error) {
				got, body = method+" "+path, string(data)
				return []byte("{}"), nil
			}}
		words := strings.Fields(c.command)
		if err := h.do(t.Context(), words[0], words[1:]); err != nil || got != c.call || body != c.body {
			t.Errorf("%s: %s %s, %v; want %s %s", c.command, got, body, err, c.call, c.body)
		}
	}

	for _, command := range []string{"lose Endpoint many", "service stopped kept=half", "service stopped for=ever",
		"pool large", "dns 10.99.0", "dns 0.0.0.0", "dns 10.99.0.53,10.99.0.53", "latency a b", "explode"} {
		h := hnsCall{call: func(context.Context, string, string, []byte) ([]byte, error) {
			t.Error(command)
			return nil, nil
		}}
		words := strings.Fields(command)
		if err := h.do(t.Context(), words[0], words[1:]); err == nil {
			t.Errorf("%s was taken", command)
		}
	}
}
