//go:build !windows

package firewall

// Get returns ErrOtherSystem.
func Get(...string) (map[string]Rule, error) { return nil, ErrOtherSystem }

// Replace returns ErrOtherSystem.
func Replace(...Rule) error { return ErrOtherSystem }

// Remove returns ErrOtherSystem.
func Remove(...string) error { return ErrOtherSystem }
