package userns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func all() Range { return Range{65536, 4294901760} }

// TestRanges: each pod has ids of its own, across kubelets, until it has ended.
func TestRanges(t *testing.T) {
	dir := t.TempDir()
	for _, pod := range []string{"a", "b", "c"} {
		if err := os.Mkdir(filepath.Join(dir, pod), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{PodsDir: dir, All: Range{65536, 3 * 65536}, MaxPods: 2}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	gets := func(pod types.UID, first uint32) {
		t.Helper()
		if r, err := m.Of(pod); err != nil || r != (Range{first, 65536}) {
			t.Errorf("pod %s: %v, %v; want %d", pod, r, err, first)
		}
	}
	gets("a", 65536)
	gets("b", 2*65536)
	gets("a", 65536)
	// what upstream's kubelet writes (json.Marshal of the type userNamespace of pkg/kubelet/userns, 1.36.3)
	want :=
		`{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`
	if text, _ := os.ReadFile(filepath.Join(dir, "b", "userns")); string(text) != want {
		t.Errorf("the file is %s", text)
	}

	m.Release("a")
	if m, err = New(o); err != nil {
		t.Fatal(err)
	}
	gets("b", 2*65536)
	gets("c", 65536)
	if _, err := m.Of("gone"); err == nil {
		t.Error("a pod without a folder has ids that nobody has written down")
	}
	gets("a", 3*65536)
	if _, err := m.Of("d"); err == nil || !strings.Contains(err.Error(), "could not find an empty slot") {
		t.Errorf("no ids are left: %v", err)
	}
}

// TestRefused: options and files that cannot be, in upstream's words.
func TestRefused(t *testing.T) {
	one := func(host, container, length string) string {
		m := `[{"hostId":` + host + `,"containerId":` + container + `,"length":` + length + `}]`
		return `{"uidMappings":` + m + `,"gidMappings":` + m + `}`
	}
	for want, c := range map[string]struct {
		o     Options
		files []string
	}{
		"is not a multiple of 65536":                  {Options{All: all(), Length: 1000}, nil},
		"ID 70000 is not a multiple of":               {Options{All: Range{70000, 65536}}, nil},
		"ID 0 must be greater or equal to":            {Options{All: Range{0, 65536}}, nil},
		"IDs length 65537 is not":                     {Options{All: Range{65536, 65537}}, nil},
		"not enough to support 2 pods":                {Options{All: Range{65536, 65536}, MaxPods: 2}, nil},
		"wrong user namespace length 10":              {Options{All: all()}, []string{one("65536", "0", "10")}},
		"wrong user namespace offset specified 65537": {Options{All: all()}, []string{one("65537", "0", "65536")}},
		"id 131072 is out of range": {Options{All: Range{65536, 65536}},
			[]string{one("131072", "0", "65536")}},
		"UID 0 must be mapped":             {Options{All: all()}, []string{one("65536", "1", "65536")}},
		"no more than one mapping allowed": {Options{All: all()}, []string{`{}`}},
		"GID and UID mapping should be identical": {Options{All: all()},
			[]string{`{"uidMappings":[{"hostId":65536,"length":65536}]}`}},
		"invalid user namespace mappings file": {Options{All: all()}, []string{"x"}},
		`range picked for pod "pod1" already taken`: {Options{All: all()},
			[]string{one("65536", "0", "65536"), one("65536", "0", "65536")}},
	} {

		c.o.PodsDir = t.TempDir()
		for i, text := range c.files {
			dir := filepath.Join(c.o.PodsDir, "pod"+string(rune('0'+i)))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "userns"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := New(c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
