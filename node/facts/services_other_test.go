//go:build !windows

package facts

import (
	"context"
	"errors"
	"strings"
	"testing"

	"porthole.dev/porthole/path"
)

// TestUnreadFamilies: that rules of one family cannot be read is not that there are none, and hides nothing of the
// other family.
func TestUnreadFamilies(t *testing.T) {
	nft :=
		`{"nftables": [{"metainfo": {}}, {"table": {"family": "ip", "name": "kube-proxy"}}, {"table": {"family": "ip6", "name": "kube-proxy"}}]}`
	onlyIPv4 :=
		`{"nftables": [{"table": {"family": "ip", "name": "kube-proxy"}}, {"table": {"family": "ip6", "name": "other"}}]}`
	const refused = "refused"

	for name, c := range map[string]struct {
		answers         map[string]string // by command, "refused" for an error; what is not there fails too
		rules           int
		unread, unread6 string // part of the reason
	}{
		"both in nft": {map[string]string{"nft -j list tables": nft, "nft -j list table ip kube-proxy": nftText,
			"nft -j list table ip6 kube-proxy": nftText}, 6, "", ""},
		"no IPv6": {map[string]string{"nft -j list tables": onlyIPv4, "nft -j list table ip kube-proxy": nftText},
			3, "", ""},
		"IPv6 refused": {map[string]string{"nft -j list tables": nft, "nft -j list table ip kube-proxy": nftText,
			"nft -j list table ip6 kube-proxy": refused}, 3, "", "list table ip6 kube-proxy: refused"},
		"IPv4 refused": {map[string]string{"nft -j list tables": nft, "nft -j list table ip6 kube-proxy": nftText}, 3,
			"list table ip kube-proxy", ""},
		"iptables": {map[string]string{"nft -j list tables": `{"nftables": []}`, "iptables-save -t nat": tablesText,
			"ip6tables-save -t nat": "*nat\n"}, 2, "", ""},
		"ip6tables refused": {map[string]string{"iptables-save -t nat": tablesText, "ip6tables-save -t nat": refused},
			2,
			"", "ip6tables-save -t nat: refused"},
		"nothing": {map[string]string{"nft -j list tables": `{"nftables": []}`, "iptables-save -t nat": "*nat\n"}, 0,
			"neither nft nor iptables", ""},
	} {
		n := &path.Node{}
		unread := servicesFrom(t.Context(), n, func(_ context.Context, program string, args ...string) ([]byte, error) {
			command := strings.Join(append([]string{program}, args...), " ")
			if out, ok := c.answers[command]; ok && out != refused {
				return []byte(out), nil
			}
			return nil, errors.New(command + ": refused")
		})
		for what, want := range map[string]string{path.UnreadServices: c.unread, path.UnreadServices6: c.unread6} {
			if err := unread[what]; (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: %v, want %q", name, what, err, want)
			}
		}
		if len(n.Services) != c.rules {
			t.Errorf("%s: %d rules, want %d", name, len(n.Services), c.rules)
		}
	}
}
