//go:build !windows

package platform

import "context"

// AsService calls run: only Windows has a service manager that must be answered.
func AsService(ctx context.Context, _ string, run func(context.Context) error) error { return run(ctx) }

// SetPriority does nothing: priority classes exist on Windows only.
func SetPriority(string) error { return nil }
