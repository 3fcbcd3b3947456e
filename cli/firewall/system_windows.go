package firewall

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows/registry"

	"porthole.dev/porthole/internal/firewall"
)

// rulesKey holds the host's own rules, one value each. Rules of a domain's policies are elsewhere and are not read.
const rulesKey = `SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`

type windowsFirewall struct{}

func system() (host, error) { return windowsFirewall{}, nil }

// rules reads the registry: it has all rules in one place.
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

// carryOut makes or deletes rules by COM: no program is started.
func (windowsFirewall) carryOut(o operation) error {
	if o.Verb == "delete" {
		return firewall.Remove(o.Name)
	}
	r := firewall.Rule{Name: o.Name, Program: o.Program, Protocol: firewall.Any}
	if o.UDP != "" {
		r.Protocol, r.Ports = firewall.UDP, o.UDP
	}
	return firewall.Replace(r)
}
