//go:build !windows

package platform

import "errors"

// ReadResolver is for Windows; elsewhere there is a file.
func ReadResolver() (servers, searches []string, err error) { return nil, nil, errors.ErrUnsupported }
