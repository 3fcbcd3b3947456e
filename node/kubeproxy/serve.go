package kubeproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/apiconn"
	"porthole.dev/porthole/internal/buildinfo"
	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
)

// parts holds what every mode uses.
type parts struct {
	Options
	client  *networkapi.Client
	api     string // address of the API server, as the kubeconfig has it
	server  *health.Server
	node    *networkapi.OwnNode
	events  *networkapi.ServiceEvents
	running running // the mode
	// end ends the program: with nil because it was asked to, else with the cause.
	end context.CancelCauseFunc
	// background holds the goroutines that must end before the program does.
	background sync.WaitGroup
}

// serviceEvents passes events on to the API.
type serviceEvents struct{ *networkapi.ServiceEvents }

// ServiceEvent writes one.
func (e serviceEvents) ServiceEvent(event health.Event) {
	e.Event(event.Service, event.Warning, event.Reason, event.Text)
}

// Run runs until ctx ends or an error occurs that only a new start repairs. What was programmed stays.
func Run(ctx context.Context, given Options) error {
	if err := platform.CheckBuild(); err != nil {
		return err
	}
	if !given.Config.EnableProfiling {
		runtime.MemProfileRate = 0 // its samples would be kept for ever
	}
	limitGarbage(os.Getenv, startPercent[given.Mode])

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	p := &parts{Options: given, end: end}
	plan, err := component.Order(p.components())
	if err != nil {
		return err
	}
	if err := plan.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// stopWithin is how long a mode may take to take its addresses from the host.
const stopWithin = time.Minute

// components are the parts in the order in which they start.
func (p *parts) components() []component.Component {
	var closePages func()
	return []component.Component{
		{Name: "API", Start: p.connect},
		{Name: "events", Needs: []string{"API"}, Start: func(ctx context.Context) error {
			p.events = networkapi.NewServiceEvents(ctx, p.client, "kube-proxy", p.Hostname)
			return nil
		}, Stop: func(context.Context) { p.background.Wait(); p.events.Close() }},
		{Name: "own node", Needs: []string{"API"}, Start: func(ctx context.Context) (err error) {
			p.node, err = networkapi.WatchOwnNode(ctx, p.client, p.Hostname)
			return err
		}},
		{Name: "figures", Needs: []string{"events", "own node"}, Start: p.makeFigures},
		{Name: "mode", Needs: []string{"figures"}, Start: func(ctx context.Context) (err error) {
			p.running, err = p.mode(ctx)
			return err
		}},
		{Name: "pages", Needs: []string{"mode"}, Start: func(ctx context.Context) (err error) {
			closePages, err = p.serve(ctx, p.running.diff, p.end)
			return err
		}, Stop: func(context.Context) { closePages() }},
		{Name: "configuration", Run: func(ctx context.Context) error { p.watchFile(ctx, p.end); return nil }},
		{Name: "alone", Needs: []string{"own node"},
			Start: func(ctx context.Context) error { return p.alone(ctx, p.end) }},
		{Name: "services", Needs: []string{"mode", "alone"}, StopWithin: stopWithin,
			Run: func(ctx context.Context) error {
				klog.FromContext(ctx).Info("Serving services", "node", p.Hostname, "mode", p.Mode)
				return p.running.run(ctx)
			}},
	}
}

// connect makes the client of the API server. It does not wait for an answer.
func (p *parts) connect(context.Context) (err error) {
	limits := p.Config.ClientConnection
	p.client, p.api, err = networkapi.New(apiconn.Options{Kubeconfig: p.Kubeconfig, Master: p.Master,
		UserAgent: "kube-proxy/" + Version, QPS: limits.QPS, Burst: int(limits.Burst)})
	return err
}

// makeFigures makes what has the state and the metrics for the pages.
func (p *parts) makeFigures(context.Context) error {
	p.server = health.New(health.Options{Mode: p.Mode, Node: p.Hostname, Families: []string{health.IPv4, health.IPv6},
		MaxBackends: maxBackends[p.Mode], Eligible: p.node.Eligible, Events: serviceEvents{p.events}})
	p.server.Registry().MustRegister(buildinfo.Metric(Version))
	if err := apiconn.RegisterMetrics(p.server.Registry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// serve listens on the addresses for health and metrics until closeAll is called. It calls failed if a server ends
// later by itself and the configuration says that this is fatal.
func (p *parts) serve(ctx context.Context, diff func(context.Context) (any, error),
	failed func(error)) (closeAll func(), err error) {
	pages := health.Pages{Config: &p.Config, Profiling: p.Config.EnableProfiling, Diff: diff}
	open := listening{hardFail: p.Config.BindAddressHardFail, failed: failed}
	for _, part := range []struct {
		flag, address string
		handler       http.Handler
	}{
		{"healthz-bind-address", p.Healthz, p.server.HealthHandler()},
		{"metrics-bind-address", p.Metrics, p.server.MetricsHandler(pages)},
	} {
		if err := open.serve(ctx, part.flag, part.address, part.handler); err != nil {
			open.close()
			return nil, err
		}
	}
	return open.close, nil
}

// maxBackends by mode: a load balancer of HNS takes a limited number of endpoints, a relay any number.
var maxBackends = map[string]int{Kernelspace: balance.MaxBackends}

// running is a mode that is set up.
type running struct {
	run func(context.Context) error
	// diff compares what is wanted with the host; nil if the mode cannot.
	diff func(context.Context) (any, error)
}

// listening are the HTTP servers of the pages.
type listening struct {
	hardFail bool
	failed   func(error)

	mu     sync.Mutex
	closed bool
	stops  []func()
}

func (l *listening) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, stop := range l.stops {
		stop()
	}
}

// serve starts a server; address "" means none. If the port is in use, it returns an error with hardFail, and tries
// again otherwise.
func (l *listening) serve(ctx context.Context, flag, address string, handler http.Handler) error {
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err == nil {
		l.start(listener, handler, address)
		return nil
	}
	err = fmt.Errorf("opening --%s %s: %w", flag, address, err)
	if l.hardFail {
		return err
	}
	klog.FromContext(ctx).Error(err, "Trying again")

	go func() {
		for failures := 1; ; failures++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(listenAgain.Wait(failures)):
			}
			if listener, err := net.Listen("tcp", address); err == nil {
				l.start(listener, handler, address)
				return
			}
		}
	}()
	return nil
}

func (l *listening) start(listener net.Listener, handler http.Handler, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		listener.Close()
		return
	}
	stop := httpserve.Start(listener, handler, func(err error) { l.failed(fmt.Errorf("serving %s: %w", address, err)) })
	l.stops = append(l.stops, stop)
}

// listenAgain are the pauses before a port in use is tried again, at most as long as upstream's. The first ones are
// short: the proxy before this one may hold the port until its process has ended.
var listenAgain = retry.Backoff{First: 50 * time.Millisecond, Max: 5 * time.Second}

// errFileChanged ends the proxy. Its supervisor starts it again, and the new start writes nothing that is already
// right.
var errFileChanged = errors.New("the content of the --config file has changed: ending, to be started with the new one")

// watchFile ends the proxy when the content of its configuration file changes. A file that cannot be read does not
// count.
func (given Options) watchFile(ctx context.Context, end context.CancelCauseFunc) {
	if given.ConfigFile == "" {
		return
	}
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		data, err := os.ReadFile(given.ConfigFile)
		if err == nil && len(data) > 0 && !bytes.Equal(data, given.ConfigData) {
			end(errFileChanged)
			return
		}
	}
}

// watchPeriod is a variable so that tests can shorten it.
var watchPeriod = 2 * time.Second
