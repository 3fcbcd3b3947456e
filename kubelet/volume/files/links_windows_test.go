package files

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/kubelet/volume/disk"
)

// TestLinksWork: an account that may administer the machine makes links, so that volumes have the layout that is
// changed in one step.
func TestLinksWork(t *testing.T) {
	if !windows.GetCurrentProcessToken().IsElevated() {
		t.Skip("this account has no elevated token, which the kubelet needs")
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if !linksWork(root) {
		t.Fatal("links do not work: volumes would be replaced file by file")
	}

	if err := errors.Join(root.Mkdir("..one", 0o755), root.Mkdir("..two", 0o755), swapLink(root, "..one"),
		swapLink(root, "..two")); err != nil {
		t.Fatal(err)
	}
	if err := disk.Retarget(root, dataLink, "..one"); err != nil {
		t.Errorf("a link cannot be changed in one step: %v", err)
	}
	if target, err := root.Readlink(dataLink); err != nil || target != "..one" {
		t.Errorf("the link leads to %q, %v", target, err)
	}

	if err := disk.Retarget(root, "none", "..one"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link that is not there: %v", err)
	}
	if err := errors.Join(removeIn(root, dataLink), removeIn(root, "..one"), removeIn(root, "..two")); err != nil {
		t.Error(err)
	}
}
