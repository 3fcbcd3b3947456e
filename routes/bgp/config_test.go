package bgp

import (
	"strings"
	"testing"
	"time"
)

// TestParse reads a file with every field, as YAML.
func TestParse(t *testing.T) {
	c, err := Parse([]byte(`
asNumber: 1.10
routerID: 1.2.3.4
listenPort: 1179
fullMesh: true
nodeMeshPassword: secret
announceOnly: false
holdTime: 9
keepalive: 3s
connectRetry: 2s
gracefulRestart: {enabled: false, restartTime: 2m}
bfd: {enabled: true, transmitInterval: 300ms, receiveInterval: 0.3, multiplier: 3}
acceptPrefixes: [192.168.0.0/16]
routeReflectorClusterID: 1.0.0.1
peers:
- {node: lin01, peerIP: 10.99.0.1, asNumber: 64500, port: 1179, password: x, passive: true, ebgpMultihop: 2, allowOwnAS: 1, routeReflectorClient: true, bfd: false}
`))
	if err != nil {
		t.Fatal(err)
	}

	if c.ASNumber != 65546 || time.Duration(c.HoldTime) != 9*time.Second ||
		time.Duration(c.BFD.ReceiveInterval) != 300*time.Millisecond ||
		*c.GracefulRestart.Enabled || len(c.Peers) != 1 || *c.Peers[0].BFD || c.Peers[0].ASNumber != 64500 {
		t.Errorf("read %+v", c)
	}
	if _, err := Parse([]byte(
		`{"asNumber": 64512, "peers": [{"peerIP": "10.99.0.1", "asNumber": 64500}]}`)); err != nil {
		t.Errorf("JSON: %v", err)
	}
	if _, err := Parse(nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

// Errors name the field and say what can be.
func TestParseRefuses(t *testing.T) {
	cases := map[string]string{
		"asNumbre: 1":                               "line 1: unknown field asNumbre; known: asNumber, routerID, ",
		"peers:\n- {peer: x}":                       "line 2: unknown field peers[0].peer; known: node, peerIP, ",
		"asNumber: 1\n\nasNumber: 2":                "line 3: asNumber is there twice: line 1 has it too",
		"asNumber: 1\nholdTime: [":                  "line 2: did not find expected node content",
		"hello":                                     "line 1: fields are wanted here, as NAME: VALUE; known: asNumber, ",
		"asNumber: 0":                               `line 1: asNumber: "0" is not an AS number: 1 to 4294967295`,
		"asNumber: [1]":                             "line 1: asNumber: one value is wanted here",
		"asNumber: 70000.1":                         "with a dot, both parts are 0 to 65535",
		"# times\nholdTime: soon":                   `line 2: holdTime: "soon" is not a duration: write 90s`,
		"holdTime: 2":                               "line 1: holdTime 2s: whole seconds, at least 3 s",
		"holdTime: 9\nkeepalive: 4":                 "line 2: keepalive 4s: whole seconds, at least 1 s and at most a third of holdTime 9s",
		"gracefulRestart:\n  restartTime: 2h":       "line 2: gracefulRestart.restartTime 2h0m0s: 1 s to 4095 s",
		"gracefulRestart: true":                     "line 1: gracefulRestart: fields are wanted here, as NAME: VALUE; known: enabled, restartTime",
		"gracefulRestart: {enabled: no}":            `line 1: gracefulRestart.enabled "no" is neither true nor false`,
		"bfd: {multiplier: 300}":                    "line 1: bfd.multiplier 300: 1 to 255",
		"bfd: {receiveInterval: 1ms}":               "line 1: bfd.receiveInterval 1ms: at least 10 ms",
		"routerID: router":                          `line 1: routerID "router" is not an IPv4 address: leave it out`,
		"listenPort: 70000":                         "line 1: listenPort 70000 is not a port",
		"listenPort: bgp":                           `line 1: listenPort "bgp" is not a whole number`,
		"acceptPrefixes:\n- 10.0.0.0/8\n- 10.0.0.0": `line 3: acceptPrefixes[1] "10.0.0.0" is not an IPv4 range like`,
		"peers: 10.0.0.1":                           "line 1: peers: this is a list: begin each of its lines with a dash",
		"peers:\n- asNumber: 1":                     "line 2: peers[0].peerIP is required",
		"peers:\n- peerIP: tor\n  asNumber: 1":      `line 2: peers[0].peerIP "tor" is not an IPv4 address`,
		"peers:\n- peerIP: 10.0.0.1":                "line 2: peers[0].asNumber of 10.0.0.1 is required",
		"peers:\n- peerIP: 10.0.0.1\n  asNumber: 1\n  port: x":                         `line 4: peers[0].port "x" is not a whole number`,
		"peers:\n- {peerIP: 10.0.0.1, asNumber: 1}\n- {peerIP: 10.0.0.1, asNumber: 2}": "line 3: peers[1]: peer 10.0.0.1 is there twice",
		"peers: [{peerIP: 10.0.0.1, asNumber: 1, password: " + strings.Repeat("x", 81) +
			"}]": "line 1: peers[0].password has 81 bytes: TCP MD5 takes 80",
	}

	for text, want := range cases {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
