package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

// TestUnfitWine: a host that would run with a Wine that cannot be mended is not made: no folder, no network.
func TestUnfitWine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("hosts need root")
	}
	s := Store{Dir: filepath.Join(t.TempDir(), "state"), Bin: t.TempDir()}
	if err := testkit.UnfitDLLs("../..", s.dlls()); err != nil {
		t.Skip(err)
	}

	h, err := s.Create(t.Context(), CreateOptions{Name: "mendsunfit", Build: 20348})
	var unfit *wine.UnfitError
	if !errors.As(err, &unfit) || len(unfit.Unfit) != 1 || unfit.Unfit[0].Function != testkit.Unfit {
		t.Fatalf("creating it: %v", err)
	}
	if _, err := os.Lstat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder: %v", err)
	}
	if platform.NetnsExists(h.Netns) {
		t.Errorf("network namespace %s was made", h.Netns)
	}

	// Nor is one that was made with another Wine started.
	if err := s.Prepare(t.Context(), h, nil); !errors.As(err, &unfit) {
		t.Errorf("preparing it: %v", err)
	}
}
