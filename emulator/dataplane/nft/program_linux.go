// Package nft reads and writes nft tables in the network namespace of an emulated host: with the program nft what is
// text, and over netlink, without starting a program, what is a few elements of sets.
package nft

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/internal/platform"
)

// Program is the nft program in the network namespace of a host.
type Program struct {
	Path  string // of the program; required
	Netns string // path; "" means the caller's own
}

// Run carries out a script, as one transaction.
func (p Program) Run(ctx context.Context, script string) error {
	return p.run(ctx, strings.NewReader(script), nil, "-f", "-")
}

// Has reports whether there is a table of that name in the family.
func (p Program) Has(ctx context.Context, family, name string) (bool, error) {
	var tables bytes.Buffer
	if err := p.run(ctx, nil, &tables, "list", "tables", family); err != nil {
		return false, err
	}
	return strings.Contains("\n"+tables.String(), "\ntable "+family+" "+name+"\n"), nil
}

// Ruleset reads a table back. No table is an empty ruleset; anything that cannot be read is an error.
func (p Program) Ruleset(ctx context.Context, family, name string) (table.Ruleset, error) {
	list, err := p.list(ctx, family, name)
	if err != nil || list == nil {
		return table.Ruleset{}, err
	}
	return table.ParseRuleset(list)
}

// Counts reads the counters of a table. ok is false if there is no such table. It reads the whole table, which takes up
// to a second with thousands of load balancers.
func (p Program) Counts(ctx context.Context, family, name string) (counts table.Counts, ok bool, err error) {
	list, err := p.list(ctx, family, name)
	if err != nil || list == nil {
		return table.Counts{}, false, err
	}
	counts, err = table.ParseCounts(list)
	return counts, err == nil, err
}

// list returns nft's list of a table, in JSON; nil if there is none.
func (p Program) list(ctx context.Context, family, name string) ([]byte, error) {
	var out bytes.Buffer
	if there, err := p.Has(ctx, family, name); err != nil || !there {
		return nil, err
	}
	if err := p.run(ctx, nil, &out, "-j", "-n", "list", "table", family, name); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (p Program) run(ctx context.Context, in *strings.Reader, out *bytes.Buffer, args ...string) error {
	cmd := exec.CommandContext(ctx, p.Path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if in != nil {
		cmd.Stdin = in
	}
	if out != nil {
		cmd.Stdout = out
	}
	if err := platform.StartInNetns(p.Netns, cmd); err != nil {
		return fmt.Errorf("starting nft: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
