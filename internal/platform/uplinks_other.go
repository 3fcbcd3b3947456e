//go:build !windows

package platform

import "errors"

// Uplinks returns errors.ErrUnsupported. Only Windows needs it: on other systems the node's address follows from DNS
// and routes.
func Uplinks() ([]Uplink, error) { return nil, errors.ErrUnsupported }
