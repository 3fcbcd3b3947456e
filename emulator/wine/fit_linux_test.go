package wine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/testkit"
)

// fitTools finds Wine and our DLLs.
func fitTools(t *testing.T) (tools Tools, dlls string) {
	t.Helper()
	tools, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if dlls, err = testkit.DLLs("../.."); err != nil {
		t.Skip(err)
	}
	return tools, dlls
}

// TestFit: this Wine fits. A state folder that is not there stays away; one that is there keeps the answer, for as
// long as Wine and our DLL are the same. What is damaged is not believed.
func TestFit(t *testing.T) {
	tools, dlls := fitTools(t)
	state := filepath.Join(t.TempDir(), "state")
	if err := tools.CheckFit(t.Context(), state, dlls); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder: %v", err)
	}

	file := fitFile(state)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tools.CheckFit(t.Context(), state, dlls); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(kept), `"Version": "wine-`) {
		t.Fatalf("kept: %s, %v", kept, err)
	}
	stamp, err := tools.fitStamp(dlls)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "half": string(kept[:len(kept)/2]),
		"another Wine": strings.Replace(string(kept), stamp[:8], "00000000", 1),
		"no version":   `{"Stamp": "` + stamp + `"}`, "something else": `[1]`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := tools.CheckFit(t.Context(), state, dlls); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := os.ReadFile(file); err != nil || string(again) != string(kept) {
			t.Errorf("%s: then %s, %v", name, again, err)
		}
	}

	// The answer that is kept is the one that is given.
	const lied = `"Unfit": [{"Mend": "link", "Function": "NtFsControlFile"}]`
	lie := strings.Replace(string(kept), `"Unfit": null`, lied, 1)
	if err := os.WriteFile(file, []byte(lie), 0o644); err != nil {
		t.Fatal(err)
	}
	var unfit *UnfitError
	err = tools.CheckFit(t.Context(), state, dlls)
	if !errors.As(err, &unfit) || unfit.Unfit[0].Function != "NtFsControlFile" {
		t.Errorf("what is kept is not looked at: %v", err)
	}
}

// TestUnfit: a Wine that a mend does not fit is told, by the program that each command asks.
func TestUnfit(t *testing.T) {
	tools, _ := fitTools(t)
	dlls := t.TempDir()
	if err := testkit.UnfitDLLs("../..", dlls); err != nil {
		t.Fatal(err)
	}
	err := tools.CheckFit(t.Context(), t.TempDir(), dlls)
	var unfit *UnfitError
	if !errors.As(err, &unfit) || len(unfit.Unfit) != 1 || unfit.Unfit[0].Function != testkit.Unfit ||
		unfit.Unfit[0].Mend != "registry" {
		t.Fatalf("%v, %+v", err, unfit)
	}
	if !strings.HasPrefix(unfit.Version, "wine-") || !strings.Contains(err.Error(), unfit.Version) {
		t.Errorf("the version is not said: %v", err)
	}
}

// TestFitWithoutAnswer: a Wine that runs no program is refused with the cure, and the file of the state folder is not
// written.
func TestFitWithoutAnswer(t *testing.T) {
	tools, dlls := fitTools(t)
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "wine"), 0o755); err != nil {
		t.Fatal(err)
	}
	silent := filepath.Join(t.TempDir(), "wine64")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\necho wine-0.1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tools.Loader = silent
	err := tools.CheckFit(t.Context(), state, dlls)
	if err == nil || !strings.Contains(err.Error(), "wine-0.1") || !strings.Contains(err.Error(), "make root") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(fitFile(state)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an answer is kept: %v", err)
	}
}
