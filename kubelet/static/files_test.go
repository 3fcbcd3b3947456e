package static

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func manifest(name, image string) string {
	return fmt.Sprintf(
		"apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: app, image: '%s'}]}\n", name,
		image)
}

// started runs a source and returns what it delivers and refuses.
func started(t *testing.T, run func(context.Context, func([]*v1.Pod), func(string, error))) (delivered chan string,
	refused chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	delivered, refused = make(chan string, 100), make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx, func(pods []*v1.Pod) {
			var names []string
			for _, p := range pods {
				names = append(names, p.Name+"="+p.Spec.Containers[0].Image)
			}
			delivered <- strings.Join(names, " ")
		}, func(_ string, err error) { refused <- err.Error() })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return delivered, refused
}

func expect(t *testing.T, from chan string, what, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want && !(want != "" && strings.Contains(got, want)) {
			t.Fatalf("%s: %q, want %q", what, got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: nothing came, want %q", what, want)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFolder changes the folder in every way; the rescan is an hour away, so that events alone must tell.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a.yaml"), manifest("a", "x:1"))
	put(t, filepath.Join(dir, ".hidden.yaml"), manifest("hidden", "x:1"))
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}

	pods, refused := started(t, (&Files{Path: dir, Node: "n", Period: time.Hour}).Run)
	expect(t, pods, "at the start", "a-n=x:1")
	put(t, filepath.Join(dir, "b.yaml"), manifest("b", "x:1"))
	expect(t, pods, "a new file", "a-n=x:1 b-n=x:1")
	put(t, filepath.Join(dir, "a.yaml"), manifest("a", "x:2"))
	expect(t, pods, "a changed file", "a-n=x:2 b-n=x:1")
	put(t, filepath.Join(dir, "b.yaml"), "broken: [")
	expect(t, refused, "a broken file", "yaml")
	put(t, filepath.Join(dir, "c.yaml"), manifest("c", "x:1"))
	expect(t, pods, "the broken file's pod stays", "a-n=x:2 b-n=x:1 c-n=x:1")
	for _, name := range []string{"b.yaml", "c.yaml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}

	expect(t, pods, "removed files", "a-n=x:2")
	put(t, filepath.Join(dir, ".new"), manifest("a", "x:3"))
	if err := os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}

	expect(t, pods, "a file moved over another", "a-n=x:3")
	put(t, filepath.Join(dir, "d.yaml"), manifest("d", "x:1"))
	expect(t, pods, "one more file", "a-n=x:3 d-n=x:1")
	if err := os.Rename(filepath.Join(dir, "a.yaml"), dir+".out"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".out", filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	expect(t, pods, "a file taken out, and put back at once", "d-n=x:1")
	expect(t, pods, "the same file is back", "a-n=x:3 d-n=x:1")
	if len(refused) > 0 {
		t.Errorf("more was refused: %s", <-refused)
	}
}

// TestFolderComesLater: a folder that does not exist has no pods, which is an answer; when it appears the rescan finds
// it.
func TestFolderComesLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	pods, _ := started(t, (&Files{Path: dir, Node: "n", Period: 20 * time.Millisecond}).Run)
	expect(t, pods, "no folder", "")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "a.json"), manifest("a", "x:1"))
	expect(t, pods, "the folder came", "a-n=x:1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	expect(t, pods, "the folder went", "")
}

func TestOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "only.yaml")
	put(t, path, manifest("a", "x:1"))
	put(t, filepath.Join(filepath.Dir(path), "other.yaml"), manifest("b", "x:1"))
	pods, _ := started(t, (&Files{Path: path, Node: "n", Period: time.Hour}).Run)
	expect(t, pods, "at the start", "a-n=x:1")
	put(t, path, manifest("a", "x:2"))
	expect(t, pods, "changed", "a-n=x:2")
}

// TestURL: what the address says counts while it answers; a failure changes nothing.
func TestURL(t *testing.T) {
	var answer atomic.Pointer[string]
	set := func(s string) { answer.Store(&s) }
	set(manifest("a", "x:1"))
	var tokens atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Equal(r.Header["X-Token"], []string{"t"}) {
			tokens.Add(1)
		}
		if *answer.Load() == "" {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, *answer.Load())
	}))

	defer server.Close()
	pods, refused := started(t,
		(&URL{Address: server.URL, Header: http.Header{"X-Token": {"t"}}, Node: "n",
			Period: 10 * time.Millisecond}).Run)
	expect(t, pods, "at the start", "a-n=x:1")
	set("")
	expect(t, refused, "not available", "503")
	set(`{"apiVersion":"v1","kind":"PodList","items":[]}`)
	expect(t, pods, "an empty list", "")
	if tokens.Load() == 0 {
		t.Error("the header was not sent")
	}
}
