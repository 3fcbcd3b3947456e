package serve

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/kubelet/pod"
)

// logTree makes a folder of logs, and beside it a file that must not be shown.
func logTree(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "log")
	for name, text := range map[string]string{"syslog": "lines of the system\n", "agent.log": "lines of the agent\n",
		"deep/deep.log": "deep lines\n", "deep/other.txt": "other\n", "../secret.log": "secret\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret.log", filepath.Join(dir, "leak.log")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	return dir
}

// TestNodeLogQuery expects upstream's answers. The services have names that no journal has, so that their logs are
// files.
func TestNodeLogQuery(t *testing.T) {
	srv := startServer(t, Options{Pods: func() []pod.View { return nil }, Auth: AuthOptions{Anonymous: true},
		Logs: LogsOptions{Dir: logTree(t), Queries: true}})

	for _, c := range []struct {
		path string
		code int
		body string // a part of the body; the whole body if this ends with a line feed
	}{
		{"syslog", 200, "lines of the system\n"},
		{"?query=syslog", 200, "lines of the system\n"},
		{"?query=agent", 200, "lines of the agent\n"},
		{"?query=agent&query=deep", 200, "lines of the agent\ndeep lines\n"},
		{"?query=/deep/other.txt", 200, "other\n"},
		{`?query=deep\other.txt`, 200, "other\n"},
		{"?query=porthole-nothing", 200, "\nlog not found for porthole-nothing\n"},
		{"?query=leak", 200, "error getting log for leak: "},
		{"?query=/../secret.log", 406, "query: Invalid value"},
		{"?query=/leak.log", 406, "query: Invalid value"},
		{"?query=agent&tailLines=1", 200,
			"\noptions present and query resolved to log files for [agent]\ntry without specifying options\n"},
		{"?query=+", 400, "query cannot be empty"},
		{"?query=agent&sinceTime=yesterday", 400, `sinceTime: Invalid value: "yesterday": invalid time format`},
		{"?query=agent&tailLines=x", 400, "tailLines: Invalid value"},
		{"?tailLines=1", 406, "query: Required value: cannot be empty with options"},
		{"syslog?query=agent", 406, "path not allowed in query mode\n"},
		{"?query=agent&query=/syslog", 406, "cannot specify a file and service"},
		{"?query=/syslog&query=/agent.log", 406, "cannot specify more than one file"},
		{"?query=/syslog&boot=0", 406, "cannot specify file with options"},
		{"?query=/nothing", 406, "query: Invalid value"},
		{"?query=--since%3Dnow", 406, "input contains unsupported characters"},
		{"?query=" + strings.Repeat("a", 257), 406, "length must be at most 256"},
		{"?query=a&query=b&query=c&query=d&query=e", 406, "must have at most 4 items"},
		{"?query=agent&boot=1", 406, "must be less than 1"},
		{"?query=agent&tailLines=100001", 406, "tailLines: Invalid value"},
		{"?query=agent&pattern=%28", 406, "pattern: Invalid value"},
		{"?query=agent&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z", 406,
			"must be after `sinceTime`"},
	} {
		code, _, body := ask(t, http.MethodGet, srv.URL+"/logs/"+c.path, "")
		if code != c.code || !strings.Contains(body, c.body) ||
			c.code == 200 && strings.HasSuffix(c.body, "\n") && body != c.body || strings.Contains(body, "secret\n") {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}

	req, _ := http.NewRequest(http.MethodGet, srv.URL+"/logs/?query=agent", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	zip, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(zip); err != nil || string(text) != "lines of the agent\n" {
		t.Errorf("compressed: %q, %v", text, err)
	}
}

// TestQueriesAreOffUnlessAskedFor: upstream's default.
func TestQueriesAreOffUnlessAskedFor(t *testing.T) {
	srv := startServer(t, Options{Pods: func() []pod.View { return nil }, Auth: AuthOptions{Anonymous: true},
		Logs: LogsOptions{Dir: logTree(t)}})
	if code, _, body := ask(t, http.MethodGet, srv.URL+"/logs/?query=agent", ""); code != 200 ||
		!strings.Contains(body, `<a href="syslog">`) {
		t.Errorf("%d %q", code, body)
	}
	if code, _, body := ask(t, http.MethodGet, srv.URL+"/logs/leak.log", ""); code == 200 ||
		strings.Contains(body, "secret\n") {
		t.Errorf("a link out of the folder: %d %q", code, body)
	}
}

func TestJournalArgs(t *testing.T) {
	q, errs := parseNodeLogQuery(url.Values{"query": {"kubelet", "containerd"},
		"sinceTime": {"2026-01-02T03:04:05+01:00"}, "untilTime": {"2026-01-03T00:00:00Z"},
		"tailLines": {"5"}, "boot": {"-1"}, "pattern": {"error|fail"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	want := []string{"--utc", "--no-pager", "--output=short-precise", "--since=2026-01-02 02:04:05 UTC",
		"--until=2026-01-03 00:00:00 UTC", "--pager-end", "--lines=5",
		"--unit=kubelet", "--unit=containerd", "--grep=error|fail", "--case-sensitive=false", "--boot", "-1"}
	if got := q.journalArgs(q.services); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if errs := q.check(true, nil); len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "boot is not supported on Windows") {
		t.Errorf("on Windows: %v", errs)
	}
}
