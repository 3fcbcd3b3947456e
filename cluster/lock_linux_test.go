package cluster

import (
	"strings"
	"testing"

	"porthole.dev/porthole/cluster/layout"
)

// TestFolderInUse: a second `up` or `down` on a folder neither waits nor works beside the first.
func TestFolderInUse(t *testing.T) {
	l := layout.Layout{Dir: t.TempDir(), Bin: t.TempDir()}
	unlock, err := lock(l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(l); err == nil || !strings.Contains(err.Error(), l.Dir+" is in use") {
		t.Errorf("locking a folder twice: %v", err)
	}
	unlock()
	again, err := lock(l)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
