package main

import "strings"

// nameOf returns the name of a Windows program by its path, in small letters and without .exe.
func nameOf(path string) string {
	return strings.TrimSuffix(strings.ToLower(path[strings.LastIndexAny(path, `\/:`)+1:]), ".exe")
}
