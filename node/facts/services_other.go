//go:build !windows

package facts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"porthole.dev/porthole/path"
)

// readServices reads the rules of kube-proxy: its nft table, else its chains of iptables.
func readServices(ctx context.Context, n *path.Node) (what string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	data, nftErr := output(ctx, "nft", "-j", "list", "table", "ip", "kube-proxy")
	if nftErr == nil {
		n.Services, err = parseNFT(data)
		if data, six := output(ctx, "nft", "-j", "list", "table", "ip6", "kube-proxy"); six == nil && err == nil { // absent without IPv6
			var more []path.Rule
			more, err = parseNFT(data)
			n.Services = append(n.Services, more...)
		}
		return path.UnreadServices, err
	}
	data, tablesErr := output(ctx, "iptables-save", "-t", "nat")
	if tablesErr == nil && bytes.Contains(data, []byte(":KUBE-SERVICES ")) {
		n.Services, err = parseIPTables(string(data))
		if data, six := output(ctx, "ip6tables-save", "-t", "nat"); six == nil && err == nil { // without chains of kube-proxy if it has no IPv6
			var more []path.Rule
			more, err = parseIPTables(string(data))
			n.Services = append(n.Services, more...)
		}
		return path.UnreadServices, err
	}
	return path.UnreadServices, fmt.Errorf("neither nft nor iptables shows rules of kube-proxy: %w", errors.Join(nftErr, tablesErr))
}

func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var errs bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &errs, time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}
