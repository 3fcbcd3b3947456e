package observe

import (
	"strings"
	"testing"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
)

// TestStatusWithoutCluster: nothing was ever made, or its processes are gone as after a restart of the machine. One
// line says which.
func TestStatusWithoutCluster(t *testing.T) {
	l := layout.Layout{Dir: t.TempDir(), Bin: t.TempDir()}
	for _, want := range []string{"no cluster in " + l.Dir + ": run `porthole up` first",
		"the cluster in " + l.Dir + " does not run: `porthole up` starts it"} {
		s, err := Status(t.Context(), l)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v, %v, want %q", s, err, want)
		}
		if err := config.Write(l, config.Default()); err != nil {
			t.Fatal(err)
		}
	}
}
