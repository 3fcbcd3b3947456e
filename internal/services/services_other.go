//go:build !windows

package services

import (
	"context"
	"time"
)

// Manager is the service manager of Windows; other systems have none.
type Manager struct{}

// Connect returns ErrOtherSystem.
func Connect() (*Manager, error) { return nil, ErrOtherSystem }

// Close does nothing.
func (*Manager) Close() {}

// Get returns ErrOtherSystem.
func (*Manager) Get(string) (*Status, error) { return nil, ErrOtherSystem }

// Apply returns ErrOtherSystem.
func (*Manager) Apply(Spec) error { return ErrOtherSystem }

// Delete returns ErrOtherSystem.
func (*Manager) Delete(context.Context, string) error { return ErrOtherSystem }

// Start returns ErrOtherSystem.
func (*Manager) Start(context.Context, string) error { return ErrOtherSystem }

// Stop returns ErrOtherSystem.
func (*Manager) Stop(context.Context, string) error { return ErrOtherSystem }

// AddEventSource returns ErrOtherSystem.
func AddEventSource(string) error { return ErrOtherSystem }

// RemoveEventSource returns ErrOtherSystem.
func RemoveEventSource(string) error { return ErrOtherSystem }

// PrepareShutdown returns ErrOtherSystem.
func PrepareShutdown(string, time.Duration) error { return ErrOtherSystem }

// HasEventSource returns ErrOtherSystem.
func HasEventSource(string) (bool, error) { return false, ErrOtherSystem }

// ShutdownOrdered returns ErrOtherSystem.
func ShutdownOrdered(string) (bool, error) { return false, ErrOtherSystem }

// OrderShutdown returns ErrOtherSystem.
func OrderShutdown(string) error { return ErrOtherSystem }

// ForgetShutdown returns ErrOtherSystem.
func ForgetShutdown(string) error { return ErrOtherSystem }
