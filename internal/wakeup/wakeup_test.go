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
