package hcn

import "testing"

func TestSpelling(t *testing.T) {
	const lower, upper, mixed = "706f7274-6570-8001-8001-00000000000a", "706F7274-6570-8001-8001-00000000000A",
		"{706F7274-6570-8001-8001-00000000000a}"
	var s spelling
	if got := s.of(lower); got != lower {
		t.Errorf("never written: %s", got)
	}
	for _, written := range []string{upper, mixed, lower, upper} {
		s.note(written)
		if got := s.of(lower); got != written {
			t.Errorf("HNS wrote %s, and is told %s", written, got)
		}
	}

	s.forget(lower)
	if got := s.of(lower); got != lower || len(s.upper)+len(s.other) != 0 {
		t.Errorf("forgotten: %s, %d kept", got, len(s.upper)+len(s.other))
	}
	s.note(upper)
	s.only([]string{"706F7274-6570-8001-8001-00000000000B"})
	if got := s.of(lower); got != lower || len(s.upper) != 1 {
		t.Errorf("not listed any more: %s, %d kept", got, len(s.upper))
	}
	for _, odd := range []string{"", "no id", lower + "0", "706f7274x6570-8001-8001-00000000000a"} {
		s.note(odd)
		if got := s.of(odd); got != odd {
			t.Errorf("%q became %q", odd, got)
		}
	}
}
