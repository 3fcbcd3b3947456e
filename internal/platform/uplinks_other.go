//go:build !windows

package platform

import "errors"

// Uplinks is for Windows only: on other systems the host's name in DNS and its routes tell the node's address.
func Uplinks() ([]Uplink, error) { return nil, errors.ErrUnsupported }
