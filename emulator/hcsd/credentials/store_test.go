package credentials

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"porthole.dev/porthole/emulator/hcsd"
)

const (
	change = `{"PropertyType":"ContainerCredentialGuard","Settings":{"Operation":%q,"OperationDetails":` +
		`{"Id":%q,"Transport":"LRPC","CredentialSpec":"{}"}}}`
	query = `{"PropertyTypes":["ContainerCredentialGuard"]}`
)

// TestStore: instances are there for the next store, and a change that is refused or cannot be written is none.
func TestStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials.json")
	s, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Modify(fmt.Sprintf(change, "AddInstance", "a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Modify(fmt.Sprintf(change, "RemoveInstance", "b")); !errors.Is(err, hcsd.ErrElementNotFound) {
		t.Errorf("removing what is not there: %v", err)
	}
	s.file = filepath.Join(file, "below", "a", "file")
	for _, operation := range []string{"AddInstance", "RemoveInstance"} {
		id := map[string]string{"AddInstance": "b", "RemoveInstance": "a"}[operation]
		if err := s.Modify(fmt.Sprintf(change, operation, id)); err == nil {
			t.Errorf("%s is done, and cannot be written", operation)
		}
	}
	for name, open := range map[string]func() (*Store, error){
		"this": func() (*Store, error) { return s, nil }, "next": func() (*Store, error) { return Open(file) },
	} {
		next, err := open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := next.Properties(query)
		if err != nil || strings.Count(text, `"Id"`) != 1 || !strings.Contains(text, `"Id":"a"`) {
			t.Errorf("the %s store has %s, %v", name, text, err)
		}
	}

	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil {
		t.Error("a broken file is opened")
	}
}

// TestConcurrent: instances that are added and removed at the same moment are each there, or not, at the end.
func TestConcurrent(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "credentials.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			id := fmt.Sprint(n)
			err := s.Modify(fmt.Sprintf(change, "AddInstance", id))
			if n%2 == 0 {
				err = errors.Join(err, s.Modify(fmt.Sprintf(change, "RemoveInstance", id)))
			}
			if _, e := s.Properties(query); errors.Join(err, e) != nil {
				t.Error(err, e)
			}
		})
	}
	all.Wait()
	if text, err := s.Properties(query); err != nil || strings.Count(text, `"Id"`) != 5 {
		t.Errorf("%s, %v", text, err)
	}
}
