//go:build !linux && !windows

package platform

import "errors"

// ReadNetwork is not there on this system.
func ReadNetwork() (NetworkState, error) { return NetworkState{}, errors.ErrUnsupported }
