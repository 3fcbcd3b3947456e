package wine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMakeDriverStore: the folder is spelled as on Windows, and has no drivers of Wine's.
func TestMakeDriverStore(t *testing.T) {
	for name, wines := range map[string]string{"Wine 10.0": "driverstore/filerepository/winebus.inf_1",
		"Wine 8.0": "."} {
		p := Prefix{Dir: t.TempDir()}
		system := filepath.Join(p.DriveC(), "windows", "system32")
		if err := os.MkdirAll(filepath.Join(system, wines), 0o755); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := makeDriverStore(p); err != nil {
				t.Fatal(err)
			}
		}

		entries, err := os.ReadDir(system)
		if err != nil || len(entries) != 1 || entries[0].Name() != "DriverStore" {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
		drivers, err := os.ReadDir(filepath.Join(system, "DriverStore", "FileRepository"))
		if err != nil || len(drivers) > 0 {
			t.Errorf("%s: drivers %v, %v", name, drivers, err)
		}
	}
}
