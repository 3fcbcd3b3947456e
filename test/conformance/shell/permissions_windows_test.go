package main

import (
	"os"
	"testing"

	"golang.org/x/sys/windows"
)

// The digits come from the rules for owner, group and users; other accounts and rights that are not complete count
// nothing.
func TestMode(t *testing.T) {
	all := windows.ACCESS_MASK(0x1f01ff)
	const readExecute = windows.ACCESS_MASK(0x1200a9)
	for _, c := range []struct {
		acl  access
		want uint32
	}{
		{access{"admins", "system", []rule{{"admins", all}, {"system", all}, {`BUILTIN\Users`, readExecute}}}, 0o775},
		{access{"admins", "admins", []rule{{"admins", readExecute}}}, 0o550},
		{access{"admins", "system", []rule{{"Everyone", all}, {"system", windows.FILE_READ_DATA}}}, 0},
	} {
		if got := c.acl.mode(); got != c.want {
			t.Errorf("%+v has mode %o, want %o", c.acl, got, c.want)
		}
	}
}

// A file's own rights are what is read: Wine keeps the read-only attribute in them, Windows beside them.
func TestAccessOfFile(t *testing.T) {
	f, err := os.CreateTemp("", "access") // os.RemoveAll, which t.TempDir ends with, fails under Wine 8.0
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := accessOf(f.Name() + "-absent"); err == nil {
		t.Error("an absent file has permissions")
	}

	before, err := accessOf(f.Name())
	if err != nil || before.mode()&0o600 != 0o600 {
		t.Fatalf("a new file has mode %o: %+v %v", before.mode(), before, err)
	}
	if err := os.Chmod(f.Name(), 0o400); err != nil { // sets the read-only attribute
		t.Fatal(err)
	}
	defer os.Chmod(f.Name(), 0o600)
	after, err := accessOf(f.Name())
	if err != nil || after.mode() != before.mode() && after.mode() != before.mode()&^0o200 {
		t.Fatalf("a read-only file has mode %o: %+v %v", after.mode(), after, err)
	}
}
