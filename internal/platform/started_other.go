//go:build !windows

package platform

import (
	"errors"
	"time"
)

// ProcessStarted returns errors.ErrUnsupported: only the services of Windows need it.
func ProcessStarted(uint32) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }
