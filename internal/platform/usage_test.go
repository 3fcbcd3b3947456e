package platform

import (
	"errors"
	"slices"
	"testing"
)

// TestReadersFailAlone: a part that cannot be read costs no other, whichever it is.
//
// Row 1.104.
func TestReadersFailAlone(t *testing.T) {
	whole, err := ReadUsage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	parts := func(u *Usage) []bool {
		return []bool{u.CPUNanoseconds > 0, u.MemoryTotal > 0, u.DiskTotal > 0, u.OwnMemory > 0}
	}
	if !slices.Equal(parts(&whole), []bool{true, true, true, true}) || len(readers) != len(parts(&whole)) {
		t.Fatalf("%d readers, usage %+v", len(readers), whole)
	}

	broken := errors.New("no such counter")
	for i := range readers {
		list := slices.Clone(readers)
		list[i] = func(*Usage, string) error { return broken }
		got, err := readAll(t.TempDir(), list)
		want := []bool{true, true, true, true}
		want[i] = false
		if !errors.Is(err, broken) || !slices.Equal(parts(&got), want) {
			t.Errorf("without part %d: %+v, error %v", i, got, err)
		}
	}
}
