package platform

import (
	"os"
	"testing"
)

// These run on Windows and on Wine.

func TestReadUsage(t *testing.T) {
	u, err := ReadUsage(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for what, ok := range map[string]bool{
		"processor":  u.CPUNanoseconds > 0 && !u.Boot.IsZero(),
		"memory":     u.MemoryTotal > u.MemoryAvailable && u.MemoryWorkingSet > 0,
		"disk":       u.DiskTotal >= u.DiskFree && u.DiskTotal > 0,
		"commit":     u.CommitLimit > u.CommitTotal && u.CommitTotal > 0,
		"processes":  u.Tasks > 0,
		"itself":     u.OwnMemory > 1<<20 && u.OwnMemory < u.MemoryTotal,
		"interfaces": len(u.Interfaces) > 0,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, u)
		}
	}
}

func TestReadResolver(t *testing.T) {
	servers, searches, err := ReadResolver()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(servers, searches...) {
		if text == "" {
			t.Errorf("servers %q, searches %q", servers, searches)
		}
	}
	t.Logf("servers %q, searches %q", servers, searches)
}
