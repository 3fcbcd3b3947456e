package ports

import "testing"

// TestSet: what is set is there, and a request that is refused changes nothing.
func TestSet(t *testing.T) {
	number := func(n int) *int { return &n }
	s := New()
	if st := s.State(3); st.Free != endless-3 {
		t.Errorf("at first %+v", st)
	}
	for _, c := range []struct {
		name string
		q    Request
		used int
		want int // of blocks
		ok   bool
	}{
		{"nothing", Request{}, 0, endless, false}, {"both", Request{number(1), number(1)}, 0, endless, false},
		{"size", Request{Size: number(20)}, 5, 20, true}, {"negative", Request{Size: number(-1)}, 0, 20, false},
		{"negative free", Request{Free: number(-1)}, 0, 20, false}, {"free", Request{Free: number(0)}, 7, 7, true},
	} {
		if err := s.Set(c.q, c.used); (err == nil) != c.ok || s.Blocks() != c.want {
			t.Errorf("%s: %v, %d blocks, want %d", c.name, err, s.Blocks(), c.want)
		}
	}
	if st := s.State(9); st.Free != 0 || st.Used != 9 || st.Size != 7 {
		t.Errorf("more are used than there are: %+v", st)
	}
}
