//go:build !linux

package cgroup

import "errors"

// Only Linux has cgroups: kubelets of other systems use None.

// Version returns 0: there are none.
func Version() int { return 0 }

func ensure(string, limits) error { return nil }

func resize(_ string, _ limits, change func() error, _ func(int, int64) error) error { return change() }

func newSlices() (driver, error) { return nil, errors.ErrUnsupported }

func fits(string, int64) error { return nil }

// LimitsSwap returns false.
func LimitsSwap() bool { return false }

func memoryOf(string) (uint64, error) { return 0, errors.ErrUnsupported }

// Join does nothing.
func Join(string, int) error { return nil }

// Gather does nothing.
func Gather(string) error { return nil }

// Remove does nothing.
func Remove(string) error { return nil }

func present(string) bool { return false }
