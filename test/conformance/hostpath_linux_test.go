package main

import "testing"

// TestDriverIsNamed: the program of csi-driver-host-path is named for its suite, and for no other.
func TestDriverIsNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		good bool
	}{
		{[]string{"-suite", storageHostPath, "-driver", "hostpathplugin"}, true},
		{[]string{"-suite", storageHostPath}, false},
		{[]string{"-suite", storageCSI, "-driver", "hostpathplugin"}, false},
		{[]string{"-suite", storageHostPath, "-from", "report.json"}, true}, // takes in what an earlier run found
	} {
		if o, err := parse(c.args); (err == nil) != c.good || c.good && o.set() != storageHostPath+"-lin" {
			t.Errorf("%v: set %s, %v", c.args, o.set(), err)
		}
	}
}
