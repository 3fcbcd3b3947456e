package platform

import (
	"os"
	"regexp"
	"testing"
)

// These run on Windows and on Wine.

// Row 1.104.
func TestReadUsage(t *testing.T) {
	u, err := ReadUsage(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for what, ok := range map[string]bool{
		"processor":  u.CPUNanoseconds > 0 && !u.Boot.IsZero(),
		"memory":     u.MemoryTotal > u.MemoryUsed && u.MemoryWorkingSet > 0,
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

// TestReadHost: the registry has the machine's identifier in braces, cloud providers and upstream's kubelet have it
// without.
func TestReadHost(t *testing.T) {
	h, err := ReadHost(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", h)
	if raw := text(`SYSTEM\HardwareConfig`, "LastConfig"); len(raw) != 38 || raw[0] != '{' {
		t.Errorf("this is not how Windows keeps the machine's identifier: %q", raw)
	}
	if !regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$`).MatchString(h.SystemUUID) {
		t.Errorf("the machine's identifier is %q", h.SystemUUID)
	}
	if h.CPUs == 0 || h.MemoryBytes == 0 || h.DiskBytes == 0 || h.WindowsRelease == "" || h.BootID == "0" {
		t.Errorf("something is missing: %+v", h)
	}
}

// TestUplinks: one address at least is ready for use, and none has another host's zone or an empty name.
func TestUplinks(t *testing.T) {
	all, err := Uplinks()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, u := range all {
		t.Logf("%+v", u)
		if u.Interface == "" || !u.Addr.IsValid() || u.Addr.Zone() != "" {
			t.Errorf("address %+v", u)
		}
	}
}
