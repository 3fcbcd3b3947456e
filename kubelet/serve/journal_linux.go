package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// journalctl is systemd's, found by the path of the environment.
const journalctl = "journalctl"

// journaled splits services into those that the journal has entries of, and the others. If there is no journal, all are
// others.
func journaled(ctx context.Context, services []string) (known, others []string) {
	// The list has every unit of which the journal holds an entry.
	out, err := exec.CommandContext(ctx, journalctl, "--field", "_SYSTEMD_UNIT").Output()
	if err != nil {
		return nil, services
	}
	units := strings.Fields(string(out))
	for _, s := range services {
		if slices.Contains(units, s+".service") {
			known = append(known, s)
		} else {
			others = append(others, s)
		}
	}
	return known, others
}

// journal writes what journalctl prints to out. A failure of journalctl itself is not an error: its message is in the
// output, or it found no line.
func journal(ctx context.Context, args []string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, journalctl, args...)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); err == nil || errors.As(err, &ended) {
		return nil
	}
	return fmt.Errorf("reading the journal: %w", err)
}
