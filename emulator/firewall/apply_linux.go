package firewall

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"porthole.dev/porthole/internal/platform"
)

// Apply replaces the firewall's rules in the network namespace at a path; "" means the caller's own.
func Apply(ctx context.Context, netns string, rules []Rule) error {
	return nft(ctx, netns, Script(rules))
}

// Remove lets everything in again. It is success if there were no rules.
func Remove(ctx context.Context, netns string) error {
	return nft(ctx, netns, "table inet "+Table+"\ndelete table inet "+Table+"\n")
}

func nft(ctx context.Context, netns, script string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	var out bytes.Buffer
	cmd.Stdin = strings.NewReader(script)
	cmd.Stdout = &out
	cmd.Stderr = &out
	if err := platform.StartInNetns(netns, cmd); err != nil {
		return fmt.Errorf("applying the host's firewall: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("applying the host's firewall: %w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
