//go:build !windows

package facts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/path"
)

// run runs a program and returns what it prints.
type run func(ctx context.Context, name string, args ...string) ([]byte, error)

// readServices reads the rules of kube-proxy: its nft tables, else its chains of iptables.
func readServices(ctx context.Context, n *path.Node) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return servicesFrom(ctx, n, output)
}

// servicesFrom reads the rules of both families, and returns why those of one could not be read, by
// path.UnreadServices and path.UnreadServices6. A host without rules of kube-proxy for IPv6 serves none there; that
// they could not be read is something else.
func servicesFrom(ctx context.Context, n *path.Node, run run) map[string]error {
	// nft is asked first; iptables only if there are no tables of kube-proxy.
	families, nftErr := proxyTables(ctx, run)
	if nftErr == nil && len(families) > 0 {
		unread := map[string]error{}
		for family, what := range map[string]string{"ip": path.UnreadServices, "ip6": path.UnreadServices6} {
			if !slices.Contains(families, family) {
				continue
			}
			data, err := run(ctx, "nft", "-j", "list", "table", family, "kube-proxy")
			if err == nil {
				err = addRules(n, data, parseNFT)
			}
			unread[what] = err
		}
		return unread
	}

	data, err := run(ctx, "iptables-save", "-t", "nat")
	if err != nil || !bytes.Contains(data, []byte(":KUBE-SERVICES ")) {
		return map[string]error{path.UnreadServices: fmt.Errorf(
			"neither nft nor iptables shows rules of kube-proxy: %w", errors.Join(nftErr, err))}
	}
	unread := map[string]error{path.UnreadServices: addRules(n, data, parseSaved)}
	if data, err = run(ctx, "ip6tables-save", "-t", "nat"); err == nil {
		err = addRules(n, data, parseSaved)
	}
	unread[path.UnreadServices6] = err
	return unread
}

// proxyTables returns the families in which kube-proxy has a table.
func proxyTables(ctx context.Context, run run) (families []string, err error) {
	data, err := run(ctx, "nft", "-j", "list", "tables")
	if err != nil {
		return nil, err
	}
	var doc struct {
		NFTables []struct {
			Table *struct{ Family, Name string }
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("reading nft's output: %w", err)
	}
	for _, o := range doc.NFTables {
		if o.Table != nil && o.Table.Name == "kube-proxy" {
			families = append(families, o.Table.Family)
		}
	}
	return families, nil
}

// addRules adds what could be parsed, also with an error.
func addRules(n *path.Node, data []byte, parse func([]byte) ([]path.Rule, error)) error {
	rules, err := parse(data)
	n.Services = append(n.Services, rules...)
	return err
}

func parseSaved(data []byte) ([]path.Rule, error) { return parseIPTables(string(data)) }

// output runs a program, with what it says on standard error in the error.
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
