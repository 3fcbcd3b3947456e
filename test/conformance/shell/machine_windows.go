package main

import (
	"os"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// setMachineVariable sets a variable that programs find from the next boot on.
func setMachineVariable(name, value string) error {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Control\Session Manager\Environment`,
		registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer key.Close()
	return key.SetStringValue(name, value)
}

func sinceBoot() time.Duration { return windows.DurationSinceBoot() }

// installed is when Windows' folder was made.
func installed() time.Time {
	info, err := os.Stat(os.Getenv("SystemRoot"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
