package collect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/web/model"
)

// world plays the API and the nodes.
type world struct {
	mu     sync.Mutex
	synced bool
	ready  error
	silent error
	asked  int
	now    time.Time
}

func (w *world) Nodes() []*v1.Node {
	return []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "win01",
		Labels: map[string]string{v1.LabelOSStable: "windows"}}}}
}
func (w *world) Pods() []*v1.Pod                      { return nil }
func (w *world) Services() []*v1.Service              { return nil }
func (w *world) Slices() []*discoveryv1.EndpointSlice { return nil }
func (w *world) Events() []*v1.Event                  { return nil }

func (w *world) do(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) Synced() (is bool) {
	w.do(func() { is = w.synced })
	return is
}

func (w *world) Ready(context.Context) (err error) {
	w.do(func() { err = w.ready })
	return err
}

func (w *world) Now() (now time.Time) {
	w.do(func() { now = w.now })
	return now
}

func (w *world) Ask(_ context.Context, n model.NodeRef, p Program, path string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.silent != nil {
		return nil, w.silent
	}
	switch {
	case p == Routes:
		return []byte(`{"mode": "vxlan", "wanted": 3, "present": 2}`), nil
	case path == "/metrics":
		return []byte(
			"# TYPE porthole_hns_calls_total counter\nporthole_hns_calls_total{call=\"list\",result=\"ok\"} 7\n"), nil
	}
	return nil, ErrNone
}

func newWorld() (*world, *Collector) {
	w := &world{synced: true, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	return w, New(Options{Objects: w, Nodes: w, Name: "test", Now: w.Now,
		Expected: []model.NodeRef{{Name: "win02", OS: "windows"}}})
}

// TestOnce asks everybody once; an API that does not answer is an error.
func TestOnce(t *testing.T) {
	w, c := newWorld()
	f, err := c.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"win01", "win02"} { // win02 is expected, and has not registered
		r := f.Reports[name]
		if r.Routes.Last == nil || r.Routes.Last.Present != 2 || !r.Proxy.None {
			t.Errorf("%s: %+v", name, r)
		}
	}
	w.do(func() { w.ready = errors.New("connection refused") })
	if _, err := c.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}

// TestSilence: what a node said stays when it is silent, with why and since when; the first silence counts, and an
// answer ends it.
func TestSilence(t *testing.T) {
	w, c := newWorld()
	n := model.NodeRef{Name: "win01", OS: "windows"}
	routes := func() model.Answer[model.RoutesDocument] { return c.Facts().Reports["win01"].Routes }
	if !c.askAll(t.Context(), n) || c.askAll(t.Context(), n) {
		t.Error("the first answer is news, the same answer is none")
	}

	silence := w.now.Add(time.Minute)
	w.do(func() { w.now, w.silent = silence, errors.New("no route to host") })
	if !c.askAll(t.Context(), n) {
		t.Error("silence is news")
	}
	w.do(func() { w.now = silence.Add(time.Minute) })
	c.askAll(t.Context(), n)
	if a := routes(); a.Error != "no route to host" || !a.Since.Equal(silence) || a.Last == nil {
		t.Errorf("%+v", a)
	}
	w.do(func() { w.silent = nil })
	if !c.askAll(t.Context(), n) || routes().Error != "" {
		t.Errorf("after an answer: %+v", routes())
	}

	c.forget("win01")
	if len(c.Facts().Reports) != 0 {
		t.Error("a node that is gone is remembered")
	}
}

// TestAPIAway: without first lists there is no document, unless the API does not answer, which the document says then
// in one line.
func TestAPIAway(t *testing.T) {
	w, c := newWorld()
	w.do(func() { w.synced = false })
	c.rebuild(t.Context())
	if d, _ := c.Document(); d != nil {
		t.Fatalf("a document before the first lists: %s", d["cluster"])
	}
	w.do(func() {
		w.ready = errors.New("an error on the server:\n[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok")
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.followAPI(ctx)
	}()
	<-c.wake // the API's state changed
	cancel()
	<-done

	_, changed := c.Document()
	c.rebuild(t.Context())
	d, _ := c.Document()
	if text := string(d["cluster"]); !strings.Contains(text, `"error":"it is not ready: etcd"`) ||
		!strings.Contains(text, `"since":"2026-11-01T12:00:00Z"`) {
		t.Errorf("the cluster is %s", text)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told of the document")
	}
}

// TestPace: a first page wakes those who ask nodes; a second and the last make no difference to them.
func TestPace(t *testing.T) {
	_, c := newWorld()
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		c.pause(t.Context(), watched) // 10 s without a page
	}()
	began := time.Now()
	closes := []func(){}
	for len(closes) < 2 {
		closes = append(closes, c.Open())
	}
	<-woken
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("asked again after %v", took)
	}
	for _, closed := range closes {
		closed()
	}
	if c.pages != 0 {
		t.Errorf("%d pages are open", c.pages)
	}
}

// TestReasons: what changed is shown at once; whether texts have aged is looked for at each tick with a page, and at
// each fourth without.
func TestReasons(t *testing.T) {
	_, c := newWorld()
	ticks := make(chan time.Time, idleTicks+1)
	fill := func() {
		for len(ticks) < cap(ticks) {
			ticks <- time.Time{}
		}
	}

	fill()
	c.awaitReason(t.Context(), ticks)
	if used := cap(ticks) - len(ticks); used != idleTicks {
		t.Errorf("without a page: %d ticks", used)
	}
	defer c.Open()()
	fill()
	c.awaitReason(t.Context(), ticks)
	if used := cap(ticks) - len(ticks); used != 1 {
		t.Errorf("with a page: %d ticks", used)
	}
	c.Changed()
	c.awaitReason(t.Context(), nil)
}

// TestSamples: metrics are read when it is time, and a bounded number is kept.
func TestSamples(t *testing.T) {
	w, c := newWorld()
	n := model.NodeRef{Name: "win01", OS: "windows"}
	for range kept + 5 {
		c.sample(t.Context(), n)
		c.sample(t.Context(), n) // it is not time yet
		w.do(func() { w.now = w.now.Add(3 * unwatched) })
	}
	list := c.Samples()["win01"]
	if len(list) != kept || list[0].Calls[[2]string{"list", "ok"}] != 7 || w.asked != kept+5 {
		t.Errorf("%d samples of %d questions, the first %+v", len(list), w.asked, list[0])
	}
}

// TestWall: what happened is kept in its order, and bounded.
func TestWall(t *testing.T) {
	_, c := newWorld()
	for i := range wallKept + 3 {
		c.Note("node/win01", fmt.Sprint(i))
	}
	wall := c.Wall()
	if len(wall) != wallKept || wall[0].Text != "3" || wall[wallKept-1].Text != fmt.Sprint(wallKept+2) {
		t.Errorf("%d changes, from %q to %q", len(wall), wall[0].Text, wall[len(wall)-1].Text)
	}
}

// newsNodes are nodes whose programs keep a question until they have news.
type newsNodes struct {
	mu    sync.Mutex
	text  string
	asked map[Program]int
}

func (n *newsNodes) Ask(ctx context.Context, _ model.NodeRef, p Program, path string) ([]byte, error) {
	n.mu.Lock()
	n.asked[p]++
	n.mu.Unlock()
	if p == Proxy {
		return nil, ErrNone
	}
	w := httptest.NewRecorder()
	httpserve.AnswerNews(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil), func() []byte {
		n.mu.Lock()
		defer n.mu.Unlock()
		return []byte(n.text)
	})
	return w.Body.Bytes(), ctx.Err()
}

// TestNews: with a page, a program that keeps questions is asked six times a minute and not each 0.7 s, a program that
// a node does not have as seldom, and what changes is known within a second.
func TestNews(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		nodes := &newsNodes{text: `{"mode": "vxlan", "present": 1}`, asked: map[Program]int{}}
		c := New(Options{Objects: &world{synced: true}, Nodes: nodes, Name: "test", Wait: 10 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		defer c.Open()()
		var done sync.WaitGroup
		done.Go(func() { c.followNode(ctx, model.NodeRef{Name: "win01", OS: "windows"}) })

		time.Sleep(time.Minute)
		bubble.Wait()
		if r, p := nodes.asked[Routes], nodes.asked[Proxy]; r < 6 || r > 8 || p < 6 || p > 7 {
			t.Errorf("asked %d times for routes and %d times for a program that is not there, in a minute", r, p)
		}

		nodes.mu.Lock()
		nodes.text = `{"mode": "vxlan", "present": 2}`
		nodes.mu.Unlock()
		time.Sleep(time.Second)
		bubble.Wait()
		if last := c.Facts().Reports["win01"].Routes.Last; last == nil || last.Present != 2 {
			t.Errorf("a second after the change: %+v", last)
		}
		cancel()
		done.Wait()
	})
}
