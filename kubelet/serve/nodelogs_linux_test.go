package serve

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/kubelet/pod"
)

// TestNodeLogsDoNotWait: a container that has the folder of logs mounted makes a named pipe of a log. Nobody waits for
// its other end, also not if it takes the file's place after a look at it.
func TestNodeLogsDoNotWait(t *testing.T) {
	dir := logTree(t)
	pipe := filepath.Join(dir, "kubelet.log")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kubelet.log", filepath.Join(dir, "alias.log")); err != nil {
		t.Fatal(err)
	}
	srv := startServer(t, Options{Pods: func() []pod.View { return nil }, Auth: AuthOptions{Anonymous: true},
		Logs: LogsOptions{Dir: dir, Queries: true}})
	t.Cleanup(func() { // whoever waits nevertheless goes on
		if f, err := os.OpenFile(pipe, os.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	})

	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"kubelet.log", 403, "Forbidden"},
		{"alias.log", 403, "Forbidden"},
		{"?query=/kubelet.log", 403, "Forbidden"},
		{"?query=kubelet", 200, "error getting log for kubelet: kubelet.log is not a regular file"},
		{"", 200, "kubelet.log"},
		{"deep/", 200, "deep.log"},
		{"syslog", 200, "lines of the system"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/logs/"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client().Do(req)
		if err != nil {
			t.Errorf("%q: %v", c.path, err)
			cancel()
			continue
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		cancel()
		if err != nil || res.StatusCode != c.code || !strings.Contains(string(body), c.body) {
			t.Errorf("%q: %d %q %v", c.path, res.StatusCode, body, err)
		}
	}
}
