package main

import (
	"errors"
	"time"
)

// machine stands in for what these find on Windows, for tests.
// The values are fixed, so that scripts print the same in each run.
var machine = map[string]string{}

func setMachineVariable(name, value string) error {
	if name == "" {
		return errors.New("a variable needs a name")
	}
	machine[name] = value
	return nil
}

func sinceBoot() time.Duration { return time.Hour }

func installed() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
