//go:build !windows

package platform

import "errors"

// ReadResolver returns nothing: only Windows has no resolv.conf.
func ReadResolver() (servers, searches []string, err error) { return nil, nil, errors.ErrUnsupported }
