package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/web/model"
)

// ErrNone says that a node has no such program.
var ErrNone = errors.New("the node has no such program")

// Collector keeps the newest document. It is safe for concurrent use.
type Collector struct {
	o Options

	wake    chan struct{} // of one slot
	lookers chan struct{} // wakes those that ask nodes, when the first page opens

	mu       sync.Mutex
	reports  map[string]model.Report
	raw      map[string][]byte // the last answer of each node and program, to see whether it changed
	samples  map[string][]model.Sample
	snapshot *model.Snapshot
	since    map[string]time.Time // when each object entered its state
	wall     []model.Change
	api      model.API
	document model.Document
	changed  chan struct{} // closed when document is replaced
	pages    int
}

// New returns a Collector that does nothing before Run.
func New(o Options) *Collector {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Collector{o: o, wake: make(chan struct{}, 1), lookers: make(chan struct{}),
		reports: map[string]model.Report{}, raw: map[string][]byte{}, samples: map[string][]model.Sample{},
		since:   map[string]time.Time{},
		changed: make(chan struct{})}
}

// Changed tells the collector that objects changed. It does not block.
func (c *Collector) Changed() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Document returns the newest document, nil before the first, and a channel that is closed when there is a newer one.
func (c *Collector) Document() (model.Document, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.document, c.changed
}

// Open notes that a page is open, until close is called once.
func (c *Collector) Open() (closed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages++
	if c.pages == 1 {
		close(c.lookers)
		c.lookers = make(chan struct{})
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pages--
	}
}

// looked reports whether a page is open.
func (c *Collector) looked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages > 0
}

// pause waits for the time between two questions, which is next while a page is open. It ends when a first page opens.
func (c *Collector) pause(ctx context.Context, next time.Duration) {
	c.mu.Lock()
	period, opened := unwatched, c.lookers
	if c.pages > 0 {
		period = next
	}
	c.mu.Unlock()

	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-opened:
	case <-timer.C:
	}
}

// Run collects until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	tasks.Go(func() { c.followAPI(ctx) })
	tasks.Go(func() { c.followNodes(ctx) })
	defer tasks.Wait()

	tick := time.NewTicker(aging)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.rebuild(ctx)
		c.awaitReason(ctx, tick.C)
		wait(ctx, settle)
	}
}

// awaitReason waits until something changed, or until texts may have aged: at a tick, and at each idleTicks-th while
// nobody looks.
func (c *Collector) awaitReason(ctx context.Context, tick <-chan time.Time) {
	for idle := 1; ; idle++ {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			return
		case <-tick:
			if c.looked() || idle == idleTicks {
				return
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Facts returns all that is known now.
func (c *Collector) Facts() *model.Facts {
	f := &model.Facts{Name: c.o.Name, Local: c.o.Local, Nodes: c.o.Objects.Nodes(), Pods: c.o.Objects.Pods(),
		Services: c.o.Objects.Services(),
		Slices:   c.o.Objects.Slices(), Events: c.o.Objects.Events(), Reports: map[string]model.Report{}}
	for _, n := range c.o.Expected {
		f.Expected = append(f.Expected, n.Name)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	f.API = c.api
	for name, r := range c.reports {
		f.Reports[name] = r
	}
	return f
}

// rebuild makes a new document, if something is different. Before the first lists are complete there is none, unless
// the API does not answer.
func (c *Collector) rebuild(ctx context.Context) {
	f := c.Facts()
	if !c.o.Objects.Synced() && f.API.Error == "" {
		return
	}
	snapshot := model.Build(f, c.o.Now())
	last, _ := c.Document()
	document, err := model.Encode(snapshot, last)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not encode the cluster")
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.document != nil && model.Diff(c.document, document).Empty() {
		return
	}
	if c.snapshot != nil {
		c.note(model.Changes(c.snapshot, &snapshot, c.since, c.o.Now().UTC())...)
	}
	c.document, c.snapshot = document, &snapshot
	close(c.changed)
	c.changed = make(chan struct{})
}

// wallKept bounds the list of what happened.
const wallKept = 500

func (c *Collector) note(changes ...model.Change) {
	c.wall = append(c.wall, changes...)
	if n := len(c.wall); n > wallKept {
		c.wall = append([]model.Change{}, c.wall[n-wallKept:]...)
	}
}

// Note adds something that was done to what happened.
func (c *Collector) Note(key, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(model.Change{At: c.o.Now().UTC(), Key: key, Text: text})
}

// Wall returns what happened, oldest first.
func (c *Collector) Wall() []model.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]model.Change{}, c.wall...)
}

// followAPI asks the API server whether it is there: watches alone end without a word when the connection does.
func (c *Collector) followAPI(ctx context.Context) {
	for ctx.Err() == nil {
		ask, cancel := context.WithTimeout(ctx, askLimit)
		err := c.o.Objects.Ready(ask)
		cancel()

		if err != nil {
			err = shortened(err)
		}

		c.mu.Lock()
		was := c.api.Error
		switch {
		case err == nil:
			c.api = model.API{}
		case c.api.Error == "":
			c.api = model.API{Error: err.Error(), Since: c.o.Now().UTC()}
		default:
			c.api.Error = err.Error()
		}
		different := was != c.api.Error
		c.mu.Unlock()
		if different {
			c.Changed()
		}
		c.pause(ctx, watched)
	}
}

// notReady finds what fails in the answer of /readyz, which lists all that is right, too.
var notReady = regexp.MustCompile(`\[-\]([\w./-]+) failed`)

// shortened words an error of /readyz in one line.
func shortened(err error) error {
	var parts []string
	for _, m := range notReady.FindAllStringSubmatch(err.Error(), -1) {
		parts = append(parts, m[1])
	}
	if len(parts) > 0 {
		return fmt.Errorf("it is not ready: %s", strings.Join(parts, ", "))
	}
	return err
}

// followNodes keeps one goroutine for each node that asks it.
func (c *Collector) followNodes(ctx context.Context) {
	running := map[string]context.CancelFunc{}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for ctx.Err() == nil {
		wanted := c.wantedNodes()
		for _, n := range wanted {
			if running[n.Name] == nil {
				nodeCtx, cancel := context.WithCancel(ctx)
				running[n.Name] = cancel
				tasks.Go(func() { c.followNode(nodeCtx, n) })
			}
		}

		for name, cancel := range running {
			if _, is := wanted[name]; !is {
				cancel()
				delete(running, name)
				c.forget(name)
			}
		}
		wait(ctx, watched)
	}

	for _, cancel := range running {
		cancel()
	}
}

func (c *Collector) wantedNodes() map[string]model.NodeRef {
	wanted := map[string]model.NodeRef{}
	for _, n := range c.o.Expected {
		wanted[n.Name] = n
	}
	for _, n := range c.o.Objects.Nodes() {
		wanted[n.Name] = model.NodeRef{Name: n.Name, OS: n.Labels[v1.LabelOSStable]}
	}
	return wanted
}

func (c *Collector) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reports, node)
	delete(c.samples, node)
	for _, p := range []Program{Routes, Proxy} {
		delete(c.raw, node+" "+string(p))
	}
}

// followNode asks one node until ctx ends. A node that hangs delays nobody else, nor does one of its programs the
// other.
func (c *Collector) followNode(ctx context.Context, n model.NodeRef) {
	var tasks sync.WaitGroup
	tasks.Go(func() { follow(ctx, c, n, routes, func() {}) })
	tasks.Go(func() { follow(ctx, c, n, proxy, func() { c.sample(ctx, n) }) })
	tasks.Wait()
}

// answers is a program, and where in a report of a node its answer is.
type answers[T any] struct {
	program Program
	of      func(*model.Report) *model.Answer[T]
}

var (
	routes = answers[model.RoutesDocument]{Routes,
		func(r *model.Report) *model.Answer[model.RoutesDocument] { return &r.Routes }}
	proxy = answers[model.ProxyDocument]{Proxy,
		func(r *model.Report) *model.Answer[model.ProxyDocument] { return &r.Proxy }}
)

// follow asks one program until ctx ends, and calls asked after each answer.
func follow[T any](ctx context.Context, c *Collector, n model.NodeRef, p answers[T], asked func()) {
	for ctx.Err() == nil {
		began := c.o.Now()
		waited := c.o.Wait
		if !c.looked() {
			waited = 0
		}

		different := ask(ctx, c, n, p, waited)
		if different && ctx.Err() == nil {
			c.Changed()
		}
		asked()
		c.pause(ctx, c.rest(n, p.program, waited, c.o.Now().Sub(began)))
	}
}

// rest is the time until the next question, while a page is open. A program that may keep a question until it has news
// is asked again soon; if it answered the last one at once, it has had news, or does not know how to wait.
func (c *Collector) rest(n model.NodeRef, p Program, waited, took time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := c.reports[n.Name]
	switch {
	case p == Routes && report.Routes.None, p == Proxy && report.Proxy.None:
		return noProgram
	case waited > 0 && took > watched:
		return settle
	}
	return watched
}

// askAll asks all programs of a node once. It reports whether an answer is different from the last one.
func (c *Collector) askAll(ctx context.Context, n model.NodeRef) bool {
	newRoutes := ask(ctx, c, n, routes, 0)
	newProxy := ask(ctx, c, n, proxy, 0)
	return newRoutes || newProxy
}

// ask asks one program for its status, which it may keep for some time until it has news, and notes the answer. It
// reports whether the answer is different from the last one.
func ask[T any](ctx context.Context, c *Collector, n model.NodeRef, p answers[T], wait time.Duration) (different bool) {
	key := n.Name + " " + string(p.program)
	data, err := c.status(ctx, n, p.program, wait)
	var document *T
	if err == nil {
		document = new(T)
		if err = json.Unmarshal(data, document); err != nil {
			err = fmt.Errorf("its answer is not understood: %w", err)
		}
	}
	if ctx.Err() != nil {
		return false
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	report := c.reports[n.Name]
	answer := p.of(&report)
	before := *answer
	now := c.o.Now()
	switch {
	case errors.Is(err, ErrNone):
		*answer = model.Answer[T]{None: true}
	case err == nil:
		*answer = model.Answer[T]{Last: document, At: now}
		different = !bytes.Equal(c.raw[key], data)
		c.raw[key] = data
	case before.Error == "":
		answer.Error, answer.Since = err.Error(), now
	default:
		answer.Error = err.Error()
	}
	c.reports[n.Name] = report
	return different || before.Error != answer.Error || before.None != answer.None ||
		(before.Last == nil) != (answer.Last == nil)
}

// status reads the status of a program, after wait at most if it is the one that is known.
func (c *Collector) status(ctx context.Context, n model.NodeRef, p Program, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit+wait)
	defer cancel()
	path := "/status"
	if last := c.lastAnswer(n, p); wait > 0 && last != nil {
		path += "?" + httpserve.WaitQuery(last, wait).Encode()
	}
	return c.o.Nodes.Ask(ctx, n, p, path)
}

// lastAnswer is the newest answer of a program; nil if there is none, or if the program has been silent since.
func (c *Collector) lastAnswer(n model.NodeRef, p Program) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := c.reports[n.Name]
	if p == Routes && report.Routes.Error != "" || p == Proxy && report.Proxy.Error != "" {
		return nil
	}
	return c.raw[n.Name+" "+string(p)]
}
