package ovn

import (
	"errors"

	"golang.org/x/sys/windows/registry"
)

// readDriver asks the registry about the extension.
func readDriver() driver {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\`+driverService,
		registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return driver{}
	}
	if err != nil {
		return driver{Err: err}
	}
	defer k.Close()
	start, _, err := k.GetIntegerValue("Start")
	return driver{Installed: err == nil, Start: start, Err: err}
}
