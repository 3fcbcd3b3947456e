package platform

import (
	"errors"

	"golang.org/x/sys/windows"
)

// CheckNode has nothing to find fault with: there are neither control groups nor swap devices.
func CheckNode(NodeRules) error { return nil }

// CheckPrivileges refuses to run without an elevated token: without one there is no work with the runtime and volumes.
func CheckPrivileges() error {
	if !windows.GetCurrentProcessToken().IsElevated() {
		return errors.New("kubelet needs to run with elevated permissions")
	}
	return nil
}

// Claim has nothing to ask for: there are no such limits.
func Claim(Resources) error { return nil }
