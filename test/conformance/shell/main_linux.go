package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// The messages of busybox are what tests compare. But the shell of busybox 1.35, which Debian 12 has, drops variables whose
// names it could not use itself, such as "data-1"; bash passes them on, as busybox 1.37 does.
func main() {
	shell := "/bin/busybox" // takes its applet, and the beginning of its messages, from the name that it is called by
	for _, entry := range os.Environ() {
		if key, _, _ := strings.Cut(entry, "="); !identifier(key) {
			shell = "/usr/bin/bash"
		}
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(shell, os.Args, os.Environ()))
	os.Exit(127)
}

func identifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
