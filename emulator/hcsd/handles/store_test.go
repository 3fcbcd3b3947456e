package handles

import (
	"slices"
	"sync"
	"testing"
)

// TestClose: a handle lasts until the last connection that has one ends.
func TestClose(t *testing.T) {
	s := New()
	system, process := Ref{System: "a"}, Ref{"a", 7}
	for _, open := range []struct {
		c Connection
		r Ref
	}{{1, system}, {1, process}, {1, system}, {2, system}} {
		s.Open(open.c, open.r)
	}
	if last := s.Close(1); !slices.Equal(last, []Ref{process}) {
		t.Errorf("with the first connection ended %v", last)
	}
	if !s.Held(system) || s.Held(process) {
		t.Error("the second connection has the system, nobody the process")
	}
	if last := s.Close(1); last != nil {
		t.Errorf("a connection that has ended closes %v", last)
	}
	if last := s.Close(2); !slices.Equal(last, []Ref{system}) || s.Held(system) {
		t.Errorf("with the second connection ended %v", last)
	}
	if len(s.open)+len(s.counts) != 0 {
		t.Errorf("left: %v %v", s.open, s.counts)
	}
}

// TestConcurrent: of many connections that open and close one thing at the same moment, what is opened is closed, and
// exactly those that end last are told so.
func TestConcurrent(t *testing.T) {
	s := New()
	var all sync.WaitGroup
	for c := range Connection(50) {
		all.Go(func() {
			for range 20 {
				s.Open(c, Ref{System: "a"})
				if !s.Held(Ref{System: "a"}) {
					t.Error("one's own handle is not there")
				}
				s.Close(c)
			}
		})
	}
	all.Wait()
	if s.Held(Ref{System: "a"}) {
		t.Error("a handle is left")
	}
}
