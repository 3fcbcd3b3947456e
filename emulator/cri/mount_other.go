//go:build !linux

package cri

import "errors"

var errLinuxOnly = errors.New("an emulated host needs Linux")

func mountOverlay(string, []string, string, string) error { return errLinuxOnly }

func unmount(string) error { return errLinuxOnly }
