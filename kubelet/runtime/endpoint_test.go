package runtime

import (
	"strings"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	const pipe = `\\.\pipe\containerd-containerd`
	for _, tc := range []struct {
		in, network, address string
	}{
		{"npipe:////./pipe/containerd-containerd", "npipe", pipe}, // containerd, AKS
		{"npipe://./pipe/containerd-containerd", "npipe", pipe},   // kubernetes.io, "Container Runtimes"
		{`npipe:\\.\pipe\containerd-containerd`, "npipe", pipe},
		{"npipe:///pipe/containerd-containerd", "npipe", pipe},
		{"npipe:/pipe/containerd-containerd", "npipe", pipe}, // upstream takes it too
		{"npipe://./PIPE/x", "npipe", `\\.\pipe\x`},
		{"npipe:////other/pipe/x", "npipe", `\\other\pipe\x`},
		{"npipe://other/pipe/x", "npipe", `\\other\pipe\x`},
		{"npipe://./pipe/a/b", "npipe", `\\.\pipe\a\b`},
		{"tcp://127.0.0.1:10091", "tcp", "127.0.0.1:10091"},
		{"tcp:127.0.0.1:10091", "tcp", "127.0.0.1:10091"},
		{"unix:///run/containerd/containerd.sock", "unix", "/run/containerd/containerd.sock"},
		{"/run/containerd/containerd.sock", "unix", "/run/containerd/containerd.sock"},
	} {
		got, err := parseEndpoint(tc.in)
		if want := (endpoint{tc.network, tc.address}); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", tc.in, got, err, want)
		}
	}
}

// TestParseEndpointRefused checks that the error names the endpoint and says how it would be right.
func TestParseEndpointRefused(t *testing.T) {
	cures := map[string]string{
		"npipe://":                       "npipe:////./pipe/NAME",
		"npipe://./pipe":                 "npipe:////./pipe/NAME",
		"npipe://./pipe/":                "npipe:////./pipe/NAME",
		"npipe://./containerd":           "npipe:////./pipe/NAME",
		"npipe:////./share/x":            "npipe:////./pipe/NAME",
		"npipe:////":                     "npipe:////./pipe/NAME",
		"npipe:containerd-containerd":    "npipe:////./pipe/NAME",
		"npipe://./pipe/x?y":             "npipe:////./pipe/NAME",
		`\\.\pipe\containerd-containerd`: "npipe:////./pipe/NAME",
		"//./pipe/containerd-containerd": "npipe:////./pipe/NAME",
		"tcp://127.0.0.1":                "tcp://HOST:PORT",
		"tcp://127.0.0.1:":               "tcp://HOST:PORT",
		"unix://run/containerd.sock":     "unix:///PATH",
		`C:\run\containerd.sock`:         "npipe:, tcp: or unix:",
		"http://x:1":                     "npipe:, tcp: or unix:",
		"containerd.sock":                "npipe:, tcp: or unix:",
		"":                               "npipe:, tcp: or unix:",
	}

	for in, cure := range cures {
		got, err := parseEndpoint(in)
		if err == nil {
			t.Errorf("%q is taken for %v", in, got)
		} else if text := err.Error(); !strings.Contains(text, cure) ||
			in != "" && !strings.Contains(text, strings.ReplaceAll(in, `\`, `\\`)) {
			t.Errorf("%q: the error says %q, want the endpoint and %s", in, text, cure)
		}
	}
}
