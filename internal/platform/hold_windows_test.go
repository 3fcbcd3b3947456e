package platform

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
)

// TestHold: a folder is held, what is made in it inherits as before, and holding it again changes nothing.
func TestHold(t *testing.T) {
	dir, err := os.MkdirTemp(openFolder(), "hold")
	if err != nil {
		t.Fatal(err)
	}
	child := filepath.Join(dir, "child")
	defer func() {
		if err := errors.Join(os.Remove(child), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	}()

	open, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := open.DACL()
	if err == nil {
		err = windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION, nil, nil,
			list, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if is, err := Held(dir); is || err != nil {
		t.Errorf("before: %v, %v: there is nothing to see", is, err)
	}
	for range 2 {
		if err := Hold(dir); err != nil {
			t.Fatal(err)
		}
		if is, err := Held(dir); !is || err != nil {
			t.Errorf("held: %v, %v", is, err)
		}
	}
	if err := os.Mkdir(child, 0o755); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	if len(strangers(t, child)) == 0 {
		t.Error("nobody else has access to what was made in it")
	}
	if err := Hold(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there is held")
	}
}
