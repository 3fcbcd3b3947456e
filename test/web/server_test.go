package web

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/browser"
	"porthole.dev/porthole/internal/testkit/wait"
)

// The bounds of the server: 40 MB, and 1 % of a core while nobody looks. Others on the machine make processor
// time dearer: caches, clock. `make bench-web` takes the 1 % as it is.
const mostMemory = 40 << 20

var mostIdle = 0.03

// server is a running porthole-web.
type server struct {
	pid  int
	link string
}

func startServer(t *testing.T, kubeconfig string) server {
	t.Helper()
	program, err := filepath.Abs("../../bin/porthole-web")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%v: make programs builds it", err)
	}

	cmd := exec.Command(program, "web", "--kubeconfig", kubeconfig)
	link := browser.Served(t, cmd)
	return server{cmd.Process.Pid, link}
}

// memory returns how many bytes of the process are in memory, and how many of them belong to it alone and not to files.
func (s server) memory(t *testing.T) (resident, own int64) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			resident = kb << 10
		case "RssAnon":
			own = kb << 10
		}
	}
	return resident, own
}

// used returns the processor time of the process so far.
func (s server) used(t *testing.T) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+2:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}

// browse opens the stream of the page as a browser does, until ctx ends. It returns a function that reports how many
// bytes came.
func (s server) browse(ctx context.Context, t *testing.T) (came func() int) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	first, err := client.Get(s.link)
	if err != nil || first.StatusCode != http.StatusOK {
		t.Fatalf("the page: %v, %v", first, err)
	}
	first.Body.Close()
	base, _, _ := strings.Cut(s.link, "/?")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.Do(req)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %v, %v", stream, err)
	}

	sizes := make(chan int)
	go func() {
		defer stream.Body.Close()
		defer close(sizes)
		for lines := bufio.NewReaderSize(stream.Body, 1<<20); ; {
			line, err := lines.ReadSlice('\n')
			select {
			case sizes <- len(line):
			case <-ctx.Done():
				return
			}
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
		}
	}()
	total := 0
	return func() int {
		for {
			select {
			case n := <-sizes:
				total += n
			default:
				return total
			}
		}
	}
}

// TestServerIsSmall runs porthole-web with --kubeconfig before the API of 50 nodes and 2,000 pods: how much memory and
// processor time it takes while nobody looks, with a page, and with 100 changes a second; and what it asks the API
// for.
func TestServerIsSmall(t *testing.T) {
	a := serveAPI(t, newMade(50, 2000))
	s := startServer(t, a.kubeconfig(t))
	wait.True(t, time.Minute, "each kind to be watched, and each node to be asked", func() bool {
		n := a.counted()
		return n["watch pods"] == 1 && n["watch nodes"] == 1 && n["watch services"] == 1 &&
			n["watch endpointslices"] == 1 && n["watch events"] == 1 && n["nodes/proxy routes/status"] >= 50
	})
	alone, own := s.memory(t)

	// Between two rounds of questions to the nodes nobody looks and nothing changes.
	before, asked := s.used(t), a.counted()["readyz"]
	began := time.Now()
	wait.True(t, time.Minute, "a round of questions", func() bool { return a.counted()["readyz"] > asked })
	idle := float64(s.used(t)-before) / float64(time.Since(began))
	t.Logf("nobody looks: %d MB in memory, of which its own %d MB; %.1f %% of a core", alone>>20, own>>20, 100*idle)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came := s.browse(ctx, t)
	wait.True(t, time.Minute, "the whole document", func() bool { return came() > 400_000 })
	questions := questionsToNodes(a)
	before, began = s.used(t), time.Now()
	changes := changePods(t, a, 5*time.Second, came)
	if n := questionsToNodes(a) - questions; n > 4*50 {
		t.Errorf(
			"%d questions to 50 nodes in 5 s: their programs have no news, and each may be asked twice in that time", n)
	}
	busy := float64(s.used(t)-before) / float64(time.Since(began))
	most, own := s.memory(t)
	t.Logf("with a page and %d changes: %d MB in memory, of which its own %d MB; %.0f %% of a core", changes, most>>20,
		own>>20, 100*busy)

	if most > mostMemory || alone > mostMemory {
		t.Errorf("porthole-web takes %d MB alone and %d MB with a page, at most %d", alone>>20, most>>20,
			mostMemory>>20)
	}
	if idle > mostIdle {
		t.Errorf("porthole-web takes %.1f %% of a core while nobody looks, at most %.0f", 100*idle, 100*mostIdle)
	}
	for what, n := range a.counted() {
		if strings.HasPrefix(what, "watch ") && n != 1 || strings.HasPrefix(what, "list ") {
			t.Errorf("%s: asked %d times: one set of watches is enough", what, n)
		}
	}
}

// questionsToNodes is how many questions the API server was to pass on to kubelets.
func questionsToNodes(a *api) (n int) {
	for what, times := range a.counted() {
		if strings.HasPrefix(what, "nodes/proxy ") {
			n += times
		}
	}
	return n
}

// changePods makes 100 changes a second for a time, and returns how many it made. It fails if the page hears of none.
func changePods(t *testing.T, a *api, during time.Duration, came func() int) int {
	t.Helper()
	heard := came()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(during)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-end:
			if came() == heard {
				t.Error("the page heard of no change")
			}
			return i
		case <-tick.C:
			a.changePod(i%2000, i/2000%2 == 1)
			came()
		}
	}
}
