package firewall

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// Get returns the rules that have one of the names. Of several rules with one name it returns the first.
func Get(names ...string) (map[string]Rule, error) {
	found := map[string]Rule{}
	err := withRules(func(r rules) error {
		for _, name := range names {
			rule, err := r.get(name)
			if errors.Is(err, errNoRule) {
				continue
			}
			if err != nil {
				return fmt.Errorf("reading the firewall rule %q: %w", name, err)
			}
			found[name] = rule
		}
		return nil
	})
	return found, err
}

// Replace makes rules in place of all that have their names.
func Replace(list ...Rule) error {
	return withRules(func(r rules) error {
		for _, rule := range list {
			if err := r.removeAll(rule.Name); err != nil {
				return err
			}
			if err := r.add(rule); err != nil {
				return fmt.Errorf("adding the firewall rule %q: %w", rule.Name, err)
			}
		}
		return nil
	})
}

// Remove removes all rules that have one of the names. None is success.
func Remove(names ...string) error {
	return withRules(func(r rules) error {
		var failed []error
		for _, name := range names {
			failed = append(failed, r.removeAll(name))
		}
		return errors.Join(failed...)
	})
}

// errNoRule is the answer of the firewall for a name that no rule has.
const errNoRule = windows.ERROR_FILE_NOT_FOUND

// maxSame bounds how many rules of one name are removed.
const maxSame = 64

// removeAll removes all rules of a name: a call of INetFwRules removes one.
func (r rules) removeAll(name string) error {
	for range maxSame {
		if _, err := r.get(name); errors.Is(err, errNoRule) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the firewall rule %q: %w", name, err)
		}
		if err := r.remove(name); err != nil {
			return fmt.Errorf("removing the firewall rule %q: %w", name, err)
		}
	}
	return fmt.Errorf("removing the firewall rule %q: there are more than %d of this name", name, maxSame)
}
