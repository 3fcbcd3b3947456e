package ovn

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/ovnet"
)

// TestLinkRange: a pod is attached with the range of the configuration only. Its author could have written another into
// the annotation, and the node would hold it for a range that has changed.
func TestLinkRange(t *testing.T) {
	at := netip.MustParseAddr("10.244.1.7")
	for said, want := range map[string]string{
		"10.244.1.0/24": "", "10.244.0.0/16": "the range 10.244.0.0/16", "10.244.1.0/25": "the range 10.244.1.0/25",
		"10.0.0.0/8": "the range 10.0.0.0/8",
	} {
		text := ovnet.AnnotationOf(ovnet.Address{IP: at, MAC: ovnet.MACOf(at)}, netip.MustParsePrefix(said))
		server := httptest.NewServer(ovnet.Handler(func(context.Context, string, string) (ovnet.Answer, error) {
			return ovnet.Answer{UID: "u", Annotation: text, MTU: 1442}, nil
		}, func(string) {}))
		c := call{container: "c", iface: "eth0", pod: ovnet.Question{Namespace: "default", Name: "a"},
			config: Config{Subnet: netip.MustParsePrefix("10.244.1.0/24")}}
		l, _, err := Plugin{Agent: strings.TrimPrefix(server.URL, "http://")}.link(t.Context(), c)
		server.Close()
		http.DefaultClient.CloseIdleConnections()

		switch {
		case want == "" && (err != nil || l.Addr.String() != "10.244.1.7/24" || l.MAC != "0a:58:0a:f4:01:07"):
			t.Errorf("%s: %+v, %v", said, l, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", said, err, want)
		}
	}
}
