package wakeup

import "testing"

func TestSignal(t *testing.T) {
	s := New()
	select {
	case <-s:
		t.Fatal("a new signal has a pending wake-up")
	default:
	}

	s.Wake()
	s.Wake() // must not block

	<-s
	select {
	case <-s:
		t.Fatal("two wake-ups before a receive count as two")
	default:
	}
}

// A subscriber that does not read loses events; the others get all, until they stop.
func TestTopic(t *testing.T) {
	var topic Topic[int]
	topic.Send(0) // to nobody
	slow, stopSlow := topic.Subscribe()
	defer stopSlow()
	quick, stop := topic.Subscribe()
	for i := 1; i <= 100; i++ {
		topic.Send(i)
		if got := <-quick; got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
	}

	stop()
	topic.Send(101)
	if len(quick) != 0 || len(slow) != 64 || <-slow != 1 {
		t.Errorf("%d events after the end, %d at the slow subscriber", len(quick), len(slow))
	}
}
