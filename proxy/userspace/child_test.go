package userspace

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// childVariable makes the test program a proxy; a childSetup in JSON is its value.
const childVariable = "PORTHOLE_USERSPACE_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		var c child
		if err := json.Unmarshal([]byte(text), &c.childSetup); err != nil {
			panic(err)
		}
		if err := c.run(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// childSetup are the settings of a child process.
type childSetup struct {
	Listen, Interface, StateFile string
	Cluster                      []netip.Prefix
	Reserved                     []netip.Addr
	RetryMin, RetryMax, Period   time.Duration
}

// child is a proxy in a process of its own, which gets its services over HTTP.
type child struct {
	childSetup

	mu       sync.Mutex
	waiting  []service.State
	complete bool
	report   childReport
}

// childReport is what a child's reporter received.
type childReport struct {
	Services map[string]health.ServiceStatus
	Pass     health.Pass
	Passes   int
	Writes   int
	Repaired int
	// Taken counts the changes that Take returned.
	Taken int
}

func (c *child) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	changed := make(chan struct{}, 1)
	c.report.Services = map[string]health.ServiceStatus{}
	proxy := New(Options{Interface: c.Interface, StateFile: c.StateFile, Cluster: c.Cluster, Reserved: c.Reserved,
		RetryMin: c.RetryMin,
		RetryMax: c.RetryMax, Period: c.Period, Take: c.take, Changed: changed, Reporter: c})
	http.HandleFunc("POST /services", func(w http.ResponseWriter, r *http.Request) {
		var states []service.State
		if err := json.NewDecoder(r.Body).Decode(&states); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}

		c.mu.Lock()
		c.waiting, c.complete = append(c.waiting, states...), true
		c.mu.Unlock()
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	http.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = json.NewEncoder(w).Encode(c.report)
	})
	http.HandleFunc("GET /stats",
		func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(proxy.Stats()) })
	server := &http.Server{Addr: c.Listen}
	go server.ListenAndServe()
	defer server.Close()
	return proxy.Run(ctx)
}

func (c *child) take() ([]service.State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	states := c.waiting
	c.waiting = nil
	c.report.Taken += len(states)
	return states, c.complete
}

func (c *child) Pass(p health.Pass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Err = nil // an interface does not pass through JSON
	c.report.Pass = p
	c.report.Passes++
	c.report.Writes += p.Writes
}

func (c *child) Service(s health.ServiceStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Removed {
		delete(c.report.Services, s.Service)
		return
	}
	c.report.Services[s.Service] = s
}

func (c *child) Programmed(time.Time) {}

func (c *child) Repaired(_ string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Repaired += n
}
