package platform

import (
	"errors"

	"golang.org/x/sys/windows"
)

// CheckNode always succeeds: Windows has neither cgroups nor swap devices.
func CheckNode(NodeRules) error { return nil }

// CheckPrivileges returns an error if this process has no elevated token, which the runtime and volumes need.
func CheckPrivileges() error {
	if !windows.GetCurrentProcessToken().IsElevated() {
		return errors.New("kubelet needs to run with elevated permissions")
	}
	return nil
}

// Claim does nothing: Windows has no such limits.
func Claim(Resources) error { return nil }
