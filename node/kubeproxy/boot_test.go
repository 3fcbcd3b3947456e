package kubeproxy

import (
	"os"
	"path/filepath"
	"testing"
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
	if err := recordBoot(file, "7"); err != nil {
		t.Fatal(err)
	}

	ask("7", false)
	ask("8", true)
	ask("", false) // not known: a start must not change what is right

	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask("7", true)
}
