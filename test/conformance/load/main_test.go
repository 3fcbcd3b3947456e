package main

import (
	"strings"
	"testing"
)

// TestNumber: the amount of memory is read from the flags of upstream's tests, in whatever unit they give; other texts
// are errors.
func TestNumber(t *testing.T) {
	for line, want := range map[string]int{
		"-accepteula -d 300Mb -e 1 20000s -c 12": 300, // test/e2e/windows/eviction.go
		"-accepteula -d 250 -e 0 30 -c 1":        250, // the resource consumer
		"-d 64M":                                 64,
	} {
		if got, err := number(strings.Fields(line), "-d"); err != nil || got != want {
			t.Errorf("%s: %d, %v", line, got, err)
		}
	}
	for _, line := range []string{"-accepteula", "-d", "-d 3Gb", "-d -1"} {
		if got, err := number(strings.Fields(line), "-d"); err == nil {
			t.Errorf("%s: %d, want an error", line, got)
		}
	}
}
