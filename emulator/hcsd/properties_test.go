package hcsd

import "testing"

// TestLeaveOut: the processor time of a container leaves out its wineserver's, and never decreases.
func TestLeaveOut(t *testing.T) {
	var told ProcessorTime
	for _, c := range []struct{ counted, server, want uint64 }{{500, 200, 300}, {600, 200, 400}, {600, 201, 400},
		{100, 300, 400}, {900, 300, 600}} {
		m := Measured{ProcessorNanos: c.counted, UserNanos: 1000, KernelNanos: c.counted}
		m.LeaveOut(ProcessorTime{c.server, 1, c.server}, &told)
		if m.ProcessorNanos != c.want || m.KernelNanos != c.want || m.UserNanos != 999 {
			t.Errorf("of %d, of which the server has %d: %d, user %d, kernel %d", c.counted, c.server, m.ProcessorNanos,
				m.UserNanos, m.KernelNanos)
		}
	}
}
