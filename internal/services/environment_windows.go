package services

import (
	"errors"
	"slices"

	"golang.org/x/sys/windows/registry"
)

// environment is the value of a service's registry key from which the service manager takes variables of the service's
// process. No function of the manager sets it. RKE2's Windows agent gets its proxies by it (rancher/rancher#45045).
const environment = "Environment"

func serviceKey(service string) string { return `SYSTEM\CurrentControlSet\Services\` + service }

// readEnvironment returns the variables of a service, sorted; nil for none.
func readEnvironment(service string) ([]string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, serviceKey(service), registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer key.Close()
	list, _, err := key.GetStringsValue(environment)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(list)
	return list, err
}

// setEnvironment sets the variables of a service. They hold from its next start.
func setEnvironment(service string, list []string) error {
	have, err := readEnvironment(service)
	if err != nil || slices.Equal(have, list) {
		return err
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, serviceKey(service), registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer key.Close()
	if len(list) > 0 {
		return key.SetStringsValue(environment, list)
	}
	if err := key.DeleteValue(environment); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return err
	}
	return nil
}
