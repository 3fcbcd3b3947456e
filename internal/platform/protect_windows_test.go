package platform

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// TestProtect checks that only SYSTEM, administrators and the owner are in the access list of a protected folder.
func TestProtect(t *testing.T) {
	dir, err := os.MkdirTemp(openFolder(), "logs")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "0.log")
	defer func() {
		if err := errors.Join(os.Remove(log), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	}()

	if len(strangers(t, dir)) == 0 {
		t.Error("nobody else has access before: there is nothing to see")
	}
	for range 2 {
		if err := Protect(dir); err != nil {
			t.Fatal(err)
		}
		if found := strangers(t, dir); len(found) > 0 {
			t.Errorf("these have access: %v", found)
		}
	}

	if err := os.WriteFile(log, []byte("line"), 0o640); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if err := Protect(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there is protected")
	}
}

// TestProtectOldFiles: what an earlier version left in a folder is protected as well, below subfolders too. A link to
// something that is gone does not stop it.
func TestProtectOldFiles(t *testing.T) {
	dir, err := os.MkdirTemp(openFolder(), "logs")
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(dir, "ns_pod_uid")
	file, link := filepath.Join(sub, "0.log"), filepath.Join(sub, "link.log")
	err = errors.Join(os.Mkdir(sub, 0o755), os.WriteFile(file, []byte("line"), 0o644),
		os.Symlink(filepath.Join(dir, "gone"), link))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(os.Remove(link), os.Remove(file), os.Remove(sub), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	}()

	if len(strangers(t, file)) == 0 {
		t.Error("nobody else has access before: there is nothing to see")
	}
	if err := Protect(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, sub, file} {
		if found := strangers(t, path); len(found) > 0 {
			t.Errorf("%s: these have access: %v", path, found)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "line" {
		t.Errorf("the owner reads %q, %v", data, err)
	}
}

// strangersEnv names a folder with folders of an account that this program does not have, for TestProtectForeign. Who
// runs the test makes it: "empty" and "full", which has a file, and "above" with the folder "dir" of ours.
const strangersEnv = "PORTHOLE_TEST_STRANGERS"

// TestProtectForeign: a folder that somebody else made is made anew if it is empty, and refused with its name, its
// owner and the cure if it is not, or if a folder above it is theirs. Nothing in it is changed then. What somebody
// else has put into a folder of ours becomes the administrators'.
func TestProtectForeign(t *testing.T) {
	dir := os.Getenv(strangersEnv)
	if dir == "" {
		t.Skip(strangersEnv + " names no folder of somebody else")
	}
	for _, name := range []string{"full", `above\dir`} {
		path := filepath.Join(dir, name)
		err := Protect(path)
		theirs := filepath.Join(dir, strings.TrimSuffix(name, `\dir`))
		if err == nil || !strings.Contains(err.Error(), theirs+" belongs to ") ||
			!strings.Contains(err.Error(), "takeown /a") {
			t.Errorf("%s: %v", name, err)
		}
		if closed, err := Protected(theirs); err != nil || closed {
			t.Errorf("%s counts as protected, %v", theirs, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "full", "file")); err != nil {
		t.Errorf("the file of somebody else: %v", err)
	}

	empty := filepath.Join(dir, "empty")
	if err := Protect(empty); err != nil {
		t.Fatal(err)
	}
	if owner, err := strangerOf(empty); owner != "" || err != nil {
		t.Errorf("the new folder belongs to %q, %v", owner, err)
	}
	if closed, err := Protected(empty); !closed || err != nil {
		t.Errorf("the new folder: %v, %v", closed, err)
	}
}

// openFolder returns the root of the disk, from which folders inherit that every user may read them. An account's own
// folder for temporary files is closed to others.
func openFolder() string { return filepath.VolumeName(os.TempDir()) + `\` }

// strangers returns the users, other than SYSTEM, administrators and the owner, that the access list of a file or
// folder lets in.
func strangers(t *testing.T, dir string) (out []string) {
	t.Helper()
	sd, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		t.Fatal(err)
	}
	owner, _, err := sd.Owner()
	if err != nil {
		t.Fatal(err)
	}

	list, _, err := sd.DACL()
	if err != nil || list == nil { // without a list everybody is let in
		t.Fatalf("access list %v, %v", list, err)
	}

	for i := range uint32(list.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &ace); err != nil {
			t.Fatal(err)
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		known := sid.Equals(owner) || mayOwn(sid)
		if ace.Header.AceType == windows.ACCESS_ALLOWED_ACE_TYPE && !known {
			out = append(out, sid.String())
		}
	}

	return out
}
