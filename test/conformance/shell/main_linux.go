package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The messages of busybox are what tests compare. But the shell of busybox 1.35, which Debian 12 has, drops variables
// whose names it could not use itself, such as "data-1"; bash passes them on, as busybox 1.37 does.
// Everything but these two cases is busybox.
func main() {
	// Debian's busybox lacks nmeter, which upstream's node suite asks for the time with milliseconds (nmeter -d0 %3t).
	if filepath.Base(os.Args[0]) == "nmeter" {
		fmt.Println(time.Now().Format("15:04:05.000"))
		return
	}
	shell := "/bin/busybox" // takes its applet, and the beginning of its messages, from the name that it is called by
	for _, entry := range os.Environ() {
		if key, _, _ := strings.Cut(entry, "="); !identifier(key) {
			shell = "/usr/bin/bash"
		}
	}
	// Exec returns only if it fails; 127 is what shells say of a program that is not there.
	fmt.Fprintln(os.Stderr, syscall.Exec(shell, os.Args, os.Environ()))
	os.Exit(127)
}

// identifier reports whether a shell can use a name as that of a variable.
func identifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
