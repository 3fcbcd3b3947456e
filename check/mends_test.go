package check

import (
	"strings"
	"testing"
)

func TestPrintMends(t *testing.T) {
	m := Mends{Wine: "wine-10.0", List: []Mend{
		{"pipe", "named pipes", "needed", "pipe: i/o timeout"}, {"remove", "os.RemoveAll", "not needed", ""},
		{"exit", "an end", "required", "it takes long"},
	}}
	print := func(all bool) string {
		t.Helper()
		var out strings.Builder
		if err := m.Print(&out, all); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := `mends of wine-10.0:
  needed      pipe    named pipes
  not needed  remove  os.RemoveAll
  required    exit    an end
1 needed, 1 not needed, 1 required, 0 do not fit, 0 fail
`
	if got := print(false); got != want || !m.Good() {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := print(true); !strings.Contains(got, "pipe: i/o timeout\n") || !strings.Contains(got, "it takes long\n") {
		t.Errorf("all of it:\n%s", got)
	}

	m.List[1] = Mend{"remove", "os.RemoveAll", MendUnfit, "NtSetInformationFile"}
	if got := print(false); m.Good() || !strings.Contains(got, "1 do not fit") ||
		!strings.Contains(got, "does not fit  remove  os.RemoveAll  NtSetInformationFile\n") {
		t.Errorf("one does not fit:\n%s", got)
	}
}
