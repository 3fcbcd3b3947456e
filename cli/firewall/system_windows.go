package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// rulesKey holds the host's own rules, one value each. Rules of a domain's policies are elsewhere and are not read.
const rulesKey = `SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`

type windowsFirewall struct{}

func system() (host, error) { return windowsFirewall{}, nil }

// rules reads the registry, because the output of netsh is in the host's language.
func (windowsFirewall) rules() (list []rule, err error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, rulesKey, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the firewall's rules: %w", err)
	}
	defer key.Close()
	names, err := key.ReadValueNames(0)
	if err != nil {
		return nil, fmt.Errorf("reading the firewall's rules: %w", err)
	}

	for _, name := range names {
		text, _, err := key.GetStringValue(name)
		if errors.Is(err, registry.ErrNotExist) || errors.Is(err, registry.ErrUnexpectedType) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading firewall rule %s: %w", name, err)
		}
		if r, ok := parseRule(text); ok {
			list = append(list, r)
		}
	}
	return list, nil
}

// netshTimeout bounds one call of netsh, which usually takes less than a second.
const netshTimeout = time.Minute

func (windowsFirewall) netsh(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, netshTimeout)
	defer cancel()
	folder, err := windows.GetSystemDirectory()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(folder, "netsh.exe"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
