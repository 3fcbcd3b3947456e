package host

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// A rule that the kernel lacks is named, and is an error.
// Row 1.21.
func TestRulesTable(t *testing.T) {
	answer := `{"name": "web", "networkName": "porthole", "networkType": "L2Bridge", "endpoint": "e1", "network": "n1", "addresses": ["10.244.1.7/24"], "mac": "00:15:5d:00:00:07",
 "port": "hnsv1", "netns": "/run/netns/pod", "stats": {"packetsSent": 12, "bytesSent": 840}, "rules": [
 {"layer": "acl", "way": "in", "match": "priority 100 protocol 6", "action": "allow", "packets": 3, "bytes": 180},
 {"layer": "load balancer", "way": "out", "match": "tcp 10.96.0.1:80", "action": "to one of 2 backends", "packets": 7, "bytes": 420, "shared": true},
 {"layer": "port mapping", "way": "in", "match": "tcp port 80 of the host", "action": "to port 80", "missing": true}]}`
	var out bytes.Buffer
	h := hnsCall{out: &out, call: func(_ context.Context, method, path string, _ []byte) ([]byte, error) {
		if method+" "+path != "GET /rules/web" {
			t.Errorf("%s %s", method, path)
		}
		return []byte(answer), nil
	}}

	err := h.do(t.Context(), "rules", []string{"web"})
	if err == nil || !strings.Contains(err.Error(), "1 rules of the endpoint are not in the kernel") {
		t.Errorf("%v", err)
	}
	for _, line := range []string{
		"ALL PACKETS  12 sent, 840 bytes  0 received, 0 bytes; 0 dropped",
		"acl            in   priority 100 protocol 6  allow                 3        180    this endpoint",
		"load balancer  out  tcp 10.96.0.1:80         to one of 2 backends  7        420    the host",
		"port mapping   in   tcp port 80 of the host  to port 80            0        0      NOT IN THE KERNEL",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("the table lacks %q:\n%s", line, out.String())
		}
	}
}
