package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// TestResolverFollowsTheHost: servers that come or change after the start are those of pods that start afterwards.
func TestResolverFollowsTheHost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "resolv.conf")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := &hostResolver{source: file, nodeIPs: func() []string { return nil }}
		want := func(text string) {
			t.Helper()
			if got := fmt.Sprint(r.settings(t.Context())); got != text {
				t.Errorf("a pod gets %s, want %s", got, text)
			}
		}

		write("search example.com\n") // DHCP has not answered
		want("{[] [example.com] []}")
		write("nameserver 192.0.2.53\nsearch example.com\n")
		time.Sleep(resolverLife) // of the bubble
		want("{[192.0.2.53] [example.com] []}")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(resolverLife)
		want("{[192.0.2.53] [example.com] []}")
	})
}

// TestResolverWithoutServers: while the adapters of a Windows node have no DNS server, pods get those that they had.
func TestResolverWithoutServers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var servers []string
		r := &hostResolver{source: systemDNS,
			adapters: func() ([]string, []string, error) { return servers, []string{"example.com"}, nil }}
		for _, step := range []struct {
			servers []string
			want    string
			fails   bool
		}{
			{nil, "{[] [example.com] []}", false}, // DHCP has not answered
			{[]string{"192.0.2.53"}, "{[192.0.2.53] [example.com] []}", false},
			{nil, "{[192.0.2.53] [example.com] []}", true},
			{[]string{"192.0.2.54"}, "{[192.0.2.54] [example.com] []}", false},
		} {
			servers = step.servers
			got, err := r.read()
			if fmt.Sprint(got) != step.want || (err != nil) != step.fails {
				t.Errorf("with the servers %q a pod gets %s, %v, want %s", servers, got, err, step.want)
			}
			time.Sleep(resolverLife) // of the bubble
		}
	})
}
