package main

import (
	"runtime/debug"
	"testing"
)

// TestInFolder: what replaces a module from a folder of the repository has no version, and no license of its own.
func TestInFolder(t *testing.T) {
	folder := &debug.Module{Path: "./a", Version: "(devel)"}
	for _, c := range []struct {
		m    debug.Module
		want bool
	}{
		{debug.Module{Path: "example.com/a", Version: "v1.0.0"}, false},
		{debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: folder}, true},
		{debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "../a"}}, true},
		{debug.Module{Path: "k8s.io/a", Replace: &debug.Module{Path: "k8s.io/a", Version: "v0.36.3"}}, false},
	} {
		if got := inFolder(module(&c.m)); got != c.want {
			t.Errorf("%v: %t", c.m, got)
		}
	}
}
