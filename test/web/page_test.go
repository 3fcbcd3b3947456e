package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/browser"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/page"
	"porthole.dev/porthole/web/serve"
)

// site is a running `porthole web` in front of a made cluster.
type site struct {
	*made
	collector *collect.Collector
	links     chan string
	base      string
}

func start(t *testing.T, m *made) *site {
	t.Helper()
	files, err := page.Files()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{made: m, links: make(chan string, 16)}
	s.collector = collect.New(collect.Options{Objects: m, Nodes: m, Name: "shop.example"})

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go s.collector.Run(ctx)
	go func() {
		done <- serve.Run(ctx, serve.Options{Listener: listener, Page: files, Source: s.collector,
			Linked: func(link string) { s.links <- link }, Questions: answers(s.collector)})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// link returns the next link, and notes where the page is.
func (s *site) link() string {
	link := <-s.links
	s.base, _, _ = strings.Cut(link, "/?")
	return link
}

// artefacts is where screenshots go: below the folder of the test, or where PORTHOLE_SCREENSHOTS says.
func artefacts(t *testing.T, name string) string {
	dir := os.Getenv("PORTHOLE_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	return filepath.Join(dir, name+".png")
}

const pods = "document.querySelectorAll('svg.map g.pod').length"

// entered opens the page in a tab and waits until it shows every pod.
func entered(t *testing.T, b *browser.Browser, s *site, a browser.Args) time.Duration {
	t.Helper()
	a.URL = s.link()
	began := time.Now()
	b.Open(a)
	b.Wait(a.Tab, fmt.Sprintf("%s === %d", pods, len(s.Pods())), 30*time.Second)
	return time.Since(began)
}

// quiet fails if the browser complained of anything: errors of scripts, and what the content policy refused, are among
// that.
func quiet(t *testing.T, b *browser.Browser, tab string) {
	t.Helper()
	var failures []string
	b.Do("failures", browser.Args{Tab: tab}, &failures)
	for _, f := range failures {
		t.Errorf("the browser complains: %s", f)
	}
}

// The bounds: first view and each change within a second, 100 MB, frames under 50 ms with 100 changes a
// second. With a load of 20 on two cores the first view came 0.7 s after its address was asked for, a change after 0.4
// s, half of the frames after 17 ms and 95 % after 50 ms. slack is for a machine that builds and tests besides: at a
// load of 40 the first view took 9 s once. Memory and processor time have no slack. All is logged. `make bench-web`,
// for a machine that does nothing else, allows none.
var slack = time.Duration(15)

func init() {
	if os.Getenv("PORTHOLE_WEB") == "quiet" {
		slack, mostIdle = 1, 0.01
	}
}

// TestLargeCluster: the page of 50 nodes and 2,000 pods is there, and shows 100 changes a second, within its bounds of
// time and memory.
func TestLargeCluster(t *testing.T) {
	b := browser.New(t)
	s := start(t, newMade(50, 2000))
	first := entered(t, b, s, browser.Args{Tab: "a"})
	b.Do("screenshot", browser.Args{Tab: "a", Text: artefacts(t, "large")}, nil)

	wrong := fmt.Sprintf("document.querySelector('[data-key=\"pod/%s/%s\"].s-making')", s.pods[7].Namespace,
		s.pods[7].Name)
	changed := time.Now()
	s.setReady(7, false)
	s.collector.Changed()
	b.Wait("a", wrong, 10*time.Second)
	change := time.Since(changed)

	var before, after float64
	b.Do("busy", browser.Args{Tab: "a"}, &before)
	frames := frameTimes(t, b, s)
	b.Do("busy", browser.Args{Tab: "a"}, &after)
	// A patch comes ten times a second at most, and is drawn in one frame: what that takes of a processor does not
	// depend on who else works.
	draw := time.Duration((after - before) / 40 * float64(time.Second))
	var heap int64
	b.Do("heap", browser.Args{Tab: "a"}, &heap)
	own := rendererMemory(t, b)
	t.Logf(
		"first view %v with the tab, %s ms after the address was asked for; change %v; frames with 100 changes a second: median %v, 95%% %v, each patch %v of processor time; heap %d MB, renderer %d MB",
		first.Round(time.Millisecond), b.Text("a", "Math.round(performance.getEntriesByName('drawn')[0].startTime)"),
		change.Round(time.Millisecond), frames[len(frames)/2], frames[len(frames)*95/100], draw.Round(time.Millisecond),
		heap>>20, own>>20)

	for what, over := range map[string]bool{"the first view": first > slack*time.Second,
		"a change":               change > slack*time.Second,
		"a frame":                frames[len(frames)/2] > slack*50*time.Millisecond,
		"a slow frame":           slack == 1 && frames[len(frames)*95/100] > 50*time.Millisecond,
		"the drawing of a patch": draw > 50*time.Millisecond, "the browser's memory": own > 100<<20} {
		if over {
			t.Errorf("%s is over its bound", what)
		}
	}
	quiet(t, b, "a")
}

// rendererMemory is what the processes that draw pages have in memory and share with no other: their code is that of
// every tab.
func rendererMemory(t *testing.T, b *browser.Browser) (own int64) {
	t.Helper()
	var pids []int
	b.Do("renderer", browser.Args{}, &pids)
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(data), "\n") {
			var kb int64
			if strings.HasPrefix(line, "Private_") {
				fmt.Sscanf(line[strings.Index(line, ":")+1:], "%d", &kb)
			}
			own += kb << 10
		}
	}
	return own
}

// frameTimes makes 100 changes a second for four seconds, and returns how long the frames of the browser took
// meanwhile, sorted.
func frameTimes(t *testing.T, b *browser.Browser, s *site) []time.Duration {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				s.setReady(i%len(s.pods), i/len(s.pods)%2 == 1)
				s.collector.Changed()
			}
		}
	}()

	var ms []float64
	b.Do("evaluate", browser.Args{Tab: "a", Text: `new Promise((done) => {
		const list = []; let last = performance.now(); const end = last + 4000;
		const step = (now) => { list.push(now - last); last = now; now < end ? requestAnimationFrame(step) : done(list); };
		requestAnimationFrame(step);
	})`}, &ms)
	close(stop)
	<-stopped
	if len(ms) < 5 {
		t.Fatalf("%d frames in four seconds", len(ms))
	}
	var frames []time.Duration
	for _, f := range ms {
		frames = append(frames, time.Duration(f*float64(time.Millisecond)).Round(time.Millisecond))
	}
	slices.Sort(frames)
	return frames
}

// TestAdmission: the page needs a link, whose token works once and leaves the address; tabs of one browser share it.
func TestAdmission(t *testing.T) {
	b := browser.New(t)
	s := start(t, newMade(3, 12))
	link := s.link()
	if got := b.Open(browser.Args{Tab: "a", URL: s.base + "/"}); got != 401 {
		t.Errorf("without the link the answer is %d, want 401", got)
	}
	if text := b.Text("a", "document.body.innerText"); !strings.Contains(text, "has not used the link") {
		t.Errorf("the page says %q", text)
	}
	if got := b.Open(browser.Args{Tab: "a", URL: s.base + "/?token=wrong"}); got != 401 {
		t.Errorf("with a wrong token the answer is %d, want 401", got)
	}
	var failures []string
	b.Do("failures", browser.Args{Tab: "a"}, &failures) // the browser counts both answers as errors

	b.Open(browser.Args{Tab: "a", URL: link})
	b.Wait("a", pods+" === 12", 20*time.Second)
	if at := b.Text("a", "location.href"); strings.Contains(at, "token") {
		t.Errorf("the token stays in the address: %s", at)
	}
	next := <-s.links
	if next == link {
		t.Error("the token works twice")
	}

	// A second tab shares the cookie, and an address leads to the same view.
	b.Open(browser.Args{Tab: "b", URL: s.base + "/#/map?sel=node/win01"})
	b.Wait("b", "document.querySelector('.details h2')?.textContent.includes('win01')", 20*time.Second)
	quiet(t, b, "a")
	quiet(t, b, "b")
}

// TestWhatIsOldSaysSo: an API server and a node that do not answer, and routes that are missing, are said in their
// place, and taken back.
func TestWhatIsOldSaysSo(t *testing.T) {
	b := browser.New(t)
	s := start(t, newMade(3, 12))
	entered(t, b, s, browser.Args{Tab: "a"})

	s.mu.Lock()
	s.apiErr, s.silent["win01"] = errors.New("connection refused"), true
	s.routes["win02"] = routesOf("win02", s.nodes, "lin01")
	s.mu.Unlock()
	b.Wait("a", "document.querySelector('.banner')?.textContent.includes('connection refused')", 20*time.Second)
	b.Wait("a", "document.querySelector('.details').textContent.includes('no route to host')", 20*time.Second)
	b.Wait("a", "document.querySelector('path.route.s-wrong')", 20*time.Second)
	b.Do("screenshot", browser.Args{Tab: "a", Text: artefacts(t, "wrong")}, nil)

	s.mu.Lock()
	s.apiErr, s.silent["win01"] = nil, false
	s.mu.Unlock()
	b.Wait("a",
		"!document.querySelector('.banner') && !document.querySelector('.details').textContent.includes('no route to host')", 20*time.Second)
	quiet(t, b, "a")
}

// shown is true when a view has its contents.
var shown = map[string]string{"map": "document.querySelector('.details h2')",
	"services": "document.querySelectorAll('svg.timeplot').length === 2",
	"packet":   "document.querySelector('g.hop.first')",
	"pods":     "document.querySelector('tbody .dot')", "images": "document.querySelector('tbody .dot.s-wrong')",
	"hosts": "document.querySelector('article select')"}

// TestAccessible runs axe on each view, wide and light, and dark at 400 px, where nothing may be wider than the window.
func TestAccessible(t *testing.T) {
	b := browser.New(t)
	s := start(t, newMade(5, 60))
	entered(t, b, s, browser.Args{Tab: "a"})
	for _, view := range []string{"map", "map?sel=node/win01", "services?sel=shop-c/cart", "packet?from=a&to=b", "pods",
		"images", "hosts"} {
		for size, dark := range map[int]bool{1280: false, 400: true} {
			b.Open(browser.Args{Tab: "a", URL: s.base + "/#/" + view, Width: size, Dark: dark})
			b.Wait("a", shown[strings.Split(view, "?")[0]], 20*time.Second)
			accessible(t, b, fmt.Sprintf("%s, %d px", view, size))
			if wide := b.Text("a", "document.documentElement.scrollWidth"); wide != fmt.Sprint(size) {
				t.Errorf("%s at %d px is %s px wide", view, size, wide)
			}
			name := strings.NewReplacer("?", "-", "/", "-", "=", "-").Replace(view)
			name = fmt.Sprintf("view-%s-%d", strings.ReplaceAll(name, "&", "-"), size)
			file := artefacts(t, name)
			b.Do("screenshot", browser.Args{Tab: "a", Text: file}, nil)
			looksAsKept(t, name, file)
		}
	}
	quiet(t, b, "a")
}

// accessible fails for each serious finding of axe.
func accessible(t *testing.T, b *browser.Browser, what string) {
	t.Helper()
	var found []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	b.Do("axe", browser.Args{Tab: "a"}, &found)
	for _, f := range found {
		if f.Impact == "serious" || f.Impact == "critical" {
			t.Errorf("%s: %s: %s: %q", what, f.ID, f.Help, f.Nodes)
		}
	}
}
