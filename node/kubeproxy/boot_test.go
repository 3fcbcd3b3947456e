package kubeproxy

import (
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/internal/bootrecord"
)

func TestRebooted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "folder", "kernelspace.json")
	ask := func(boot string, want bool) {
		t.Helper()
		if may, why := rebooted(file, boot); may != want || may != (why != "") {
			t.Errorf("boot %s: %t %q", boot, may, why)
		}
	}
	ask("7", true) // no record
	for _, phase := range []bootrecord.Phase{bootrecord.Waiting, bootrecord.Ready} {
		if err := recordBoot(file, "7", phase); err != nil {
			t.Fatal(err)
		}
		ask("7", phase == bootrecord.Waiting) // a run that began and did not complete its work
	}

	ask("7", false)
	ask("8", true)
	ask("", false) // not known: a start must not change what is right

	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask("7", true)
}
