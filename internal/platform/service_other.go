//go:build !windows

package platform

import "errors"

// AsService reports that no service manager started this program: only Windows has one.
func AsService(Service) (managed bool, err error) {
	return false, errors.New("only Windows has a service manager")
}

// StartedByServiceManager reports false: only Windows has a service manager.
func StartedByServiceManager() bool { return false }

// SetPriority does nothing: priority classes exist on Windows only.
func SetPriority(string) error { return nil }
