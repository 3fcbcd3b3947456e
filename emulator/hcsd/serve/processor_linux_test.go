package serve

import (
	"os"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hcsd"
)

// TestCountPrograms: the processor time of a container leaves out its wineserver's, and never decreases.
func TestCountPrograms(t *testing.T) {
	me, err := processOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for me.processorTime().user == 0 { // a tick of the clock
	}
	spent := me.processorTime()
	if difference := time.Duration(spent.total) - time.Duration(
		spent.user+spent.kernel); difference.Abs() > 5*clockTick {
		t.Errorf("this process has spent %+v", spent)
	}
	if got := (*process)(nil).processorTime(); got != (processorTime{}) {
		t.Errorf("no process has spent %+v", got)
	}

	var told processorTime
	for _, c := range []struct{ counted, server, want uint64 }{{500, 200, 300}, {600, 200, 400}, {600, 201, 400},
		{100, 300, 400}, {900, 300, 600}} {
		m := hcsd.Measured{ProcessorNanos: c.counted, UserNanos: 1000, KernelNanos: c.counted}
		countPrograms(&m, processorTime{c.server, 1, c.server}, &told)
		if m.ProcessorNanos != c.want || m.KernelNanos != c.want || m.UserNanos != 999 {
			t.Errorf("of %d, of which the server has %d: %d, user %d, kernel %d", c.counted, c.server, m.ProcessorNanos,
				m.UserNanos, m.KernelNanos)
		}
	}
}
