package kubelet

import (
	"testing"

	"porthole.dev/porthole/kubelet/userns"
)

// TestSubIDs: what getsubids prints of the user kubelet.
func TestSubIDs(t *testing.T) {
	for text, want := range map[string]userns.Range{
		"0: kubelet 65536 7208960\n": {First: 65536, Length: 7208960},
		"":                           {},
		"0: other 65536 7208960":     {},
		"0: kubelet 65536 7208960\n1: kubelet 7274496 65536": {},
		"0: kubelet -1 65536":                                {},
		"0: kubelet 65536 4294967296":                        {},
	} {
		if got, err := parseSubIDs(text); got != want || (err == nil) != (want.Length > 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
