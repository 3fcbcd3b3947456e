package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processNames returns the names of the programs that this one can see.
func processNames() (names []string, err error) {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		// else it has ended meanwhile
		if comm, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm")); err == nil {
			names = append(names, strings.TrimSpace(string(comm)))
		}
	}
	return names, err
}
