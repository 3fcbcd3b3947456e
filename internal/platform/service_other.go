//go:build !windows

package platform

import "context"

// AsService runs run: only Windows has a service manager that wants answers.
func AsService(ctx context.Context, _ string, run func(context.Context) error) error { return run(ctx) }

// SetPriority accepts the names that Windows knows and does nothing.
func SetPriority(string) error { return nil }
