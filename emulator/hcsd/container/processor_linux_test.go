package container

import (
	"os"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hcsd"
)

// TestProcessorTime: a process has the time that it has spent.
func TestProcessorTime(t *testing.T) {
	me, err := ProcessOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for me.ProcessorTime().User == 0 { // a tick of the clock
	}
	spent := me.ProcessorTime()
	if difference := time.Duration(spent.Total) - time.Duration(
		spent.User+spent.Kernel); difference.Abs() > 5*clockTick {
		t.Errorf("this process has spent %+v", spent)
	}
	if got := (*Process)(nil).ProcessorTime(); got != (hcsd.ProcessorTime{}) {
		t.Errorf("no process has spent %+v", got)
	}
}
