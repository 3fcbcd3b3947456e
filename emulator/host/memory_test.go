package host

import "testing"

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "4Gi": 4 << 30, "256Mi": 256 << 20, "3000000000": 3000000000} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"four", "255Mi", "0", "-1Gi"} {
		if got, err := ParseMemory(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}
