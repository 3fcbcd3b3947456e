package platform

import "testing"

// TestPlainUUID: Windows keeps the identifier of the machine in braces and in lower case.
func TestPlainUUID(t *testing.T) {
	for in, want := range map[string]string{
		"{4c4c4544-0044-4b10-8052-b4c04f564433}": "4C4C4544-0044-4B10-8052-B4C04F564433",
		"4C4C4544-0044-4B10-8052-B4C04F564433":   "4C4C4544-0044-4B10-8052-B4C04F564433",
		"":                                       "",
	} {
		if got := plainUUID(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
