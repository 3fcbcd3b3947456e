// Package browser drives a headless Chromium from tests. A program in Node.js (web/page/test/driver.mjs, which uses
// Playwright) does the work.
package browser

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Browser is one Chromium with a profile of its own. It is not safe for concurrent use.
type Browser struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// chromium is where Debian's package has it.
const chromium = "/usr/bin/chromium"

// New starts a browser that ends with the test. The test is skipped on a machine without the programs, which
// tools/deps installs.
func New(t *testing.T) *Browser {
	t.Helper()
	page := Page(t)
	for _, needed := range []string{chromium, filepath.Join(page, "node_modules", "playwright-core", "package.json")} {
		if _, err := os.Stat(needed); err != nil {
			t.Skipf("no browser to test with: %v (tools/deps and `make page` install it)", err)
		}
	}

	cmd := exec.Command("node", filepath.Join(page, "test", "driver.mjs"))
	cmd.Env = append(os.Environ(), "CHROMIUM="+chromium)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr, cmd.WaitDelay = &errs, 10*time.Second
	if err := cmd.Start(); err != nil {
		t.Skipf("no browser to test with: %v", err)
	}

	b := &Browser{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		in.Close() // the driver closes the browser and ends
		ended := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		_ = cmd.Wait() // its output tells more
		ended.Stop()
		if t.Failed() && errs.Len() > 0 {
			t.Logf("the driver of the browser said: %s", errs.String())
		}
	})
	var version string
	b.answer("start", &version)
	t.Logf("Chromium %s", version)
	return b
}

// Page is the folder web/page of this checkout, which is above the folder of the test.
func Page(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "web", "page")
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test does not run in a checkout")
		}
		dir = filepath.Dir(dir)
	}
}

// Args are those of a command of the driver.
type Args struct {
	Tab     string `json:"tab,omitempty"`
	URL     string `json:"url,omitempty"`
	Text    string `json:"text,omitempty"`
	Value   string `json:"value,omitempty"`
	Width   int    `json:"width,omitempty"`
	Height  int    `json:"height,omitempty"`
	Dark    bool   `json:"dark,omitempty"`
	Timeout int    `json:"timeout,omitempty"` // milliseconds
}

// Do runs a command of the driver and reads its answer into value, unless that is nil. A command that fails ends the
// test.
func (b *Browser) Do(command string, a Args, value any) {
	b.t.Helper()
	if err := b.Try(command, a, value); err != "" {
		b.t.Fatalf("browser: %s %s%s: %s", command, a.URL, a.Text, err)
	}
}

// Try is Do for a command that may fail: it returns the error's text, or "".
func (b *Browser) Try(command string, a Args, value any) string {
	b.t.Helper()
	line, err := json.Marshal(struct {
		Command string `json:"command"`
		Args
	}{command, a})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		b.t.Fatalf("browser: %s: %v", command, err)
	}
	return b.answer(command, value)
}

// answer reads the driver's line into value, and returns the error that the browser reports. A
// driver that has ended fails the test.
func (b *Browser) answer(command string, value any) string {
	b.t.Helper()
	line, err := b.out.ReadBytes('\n')
	if err != nil {
		b.t.Fatalf("browser: %s: the driver ended: %v", command, err)
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		b.t.Fatalf("browser: %s: %v", command, err)
	}
	if answer.Error == "" && value != nil {
		if err := json.Unmarshal(answer.Value, value); err != nil {
			b.t.Fatalf("browser: %s: %v", command, err)
		}
	}
	return answer.Error
}

// Open shows a page in a tab and returns the status of the answer.
func (b *Browser) Open(a Args) int {
	b.t.Helper()
	var answer struct{ Status int }
	b.Do("open", a, &answer)
	return answer.Status
}

// Wait waits until an expression is true in the page, and returns how long that took.
func (b *Browser) Wait(tab, expression string, limit time.Duration) time.Duration {
	b.t.Helper()
	var ms float64
	b.Do("wait", Args{Tab: tab, Text: expression, Timeout: int(limit.Milliseconds())}, &ms)
	return time.Duration(ms * float64(time.Millisecond))
}

// Text is what an expression is in the page, as text.
func (b *Browser) Text(tab, expression string) string {
	b.t.Helper()
	var text string
	b.Do("evaluate", Args{Tab: tab, Text: "String(" + expression + ")"}, &text)
	return text
}
