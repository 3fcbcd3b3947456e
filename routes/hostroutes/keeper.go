package hostroutes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/routes/keep"
)

// FileName is the file in the state folder that holds the saved routes.
const FileName = "host-routes.json"

// host is the adapters and routes of one host. Windows implements it (NewHost), tests have one in memory.
type host interface {
	// List returns all adapters that have addresses, with the routes by them. The loopback adapter is not among them.
	List() ([]Adapter, error)
	// Add adds a route by the adapter that has the address. One that is there is success.
	Add(addr netip.Addr, r Route) error
	// Watch calls changed after each change of addresses or routes, from any goroutine, until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// Keeper saves the host's routes and puts them back. Make it with New. It is safe for concurrent use.
type Keeper struct {
	host host
	file string
	pods []netip.Prefix
	loop *keep.Loop[Status]

	mu     sync.Mutex
	saved  Saved
	loaded bool
	logged string // the plan that was logged last
}

// Status describes the saved routes after a pass.
type Status struct {
	// Saved is how many routes are guarded at the moment.
	Saved    int      `json:"saved"`
	Restored int      `json:"restored"`           // since the start
	Problems []string `json:"problems,omitempty"` // routes that are lost and not back yet
}

// New returns a Keeper that keeps the routes in a file of the folder. pods are the ranges of all pods; one that is not
// valid counts for nothing.
func New(h host, folder string, pods ...netip.Prefix) *Keeper {
	k := &Keeper{host: h, file: filepath.Join(folder, FileName), pods: pods}
	k.loop = keep.NewLoop(keep.LoopOptions[Status]{Subject: "the host's routes", Pass: k.pass, Watch: h.Watch})
	return k
}

// Status returns the outcome of the last pass.
func (k *Keeper) Status() Status { return k.loop.Status() }

// Run puts lost routes back until ctx ends. It needs no Save of this process: it begins with what is in the file.
func (k *Keeper) Run(ctx context.Context) { k.loop.Run(ctx) }

// Save keeps the routes that the host has now, beside those of earlier Saves that are still guarded. Call it before
// HNS creates or deletes a network; if it returns an error, leave HNS as it is.
func (k *Keeper) Save(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.load(); err != nil {
		return err
	}
	list, err := k.host.List()
	if err != nil {
		return fmt.Errorf("saving the host's routes: %w", err)
	}
	next := Merge(k.saved, Worth(list, k.pods...), time.Now())
	data, err := json.MarshalIndent(next, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(k.file), 0o755)
	}
	if err == nil {
		err = atomicfile.Write(k.file, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("saving the host's routes in %s: %w", k.file, err)
	}

	k.saved = next
	klog.FromContext(ctx).Info("Saved the host's routes before a change of HNS networks", "file", k.file, "routes",
		count(next))
	k.loop.Changed()
	return nil
}

// settlePeriod is how often Settle looks. An adapter takes up to ten seconds until it has its addresses back.
const settlePeriod = 200 * time.Millisecond

// Settle puts lost routes back and returns when none is missing, with the file removed. Call it in place of Run, after
// the last change of HNS networks. If ctx ends before, the error names what is missing, and the file stays.
func (k *Keeper) Settle(ctx context.Context) error {
	tick := time.NewTicker(settlePeriod)
	defer tick.Stop()
	for {
		status := k.restore(ctx, Status{})
		if len(status.Problems) == 0 {
			if err := os.Remove(k.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing the saved routes of the host: %w", err)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New(strings.Join(status.Problems, "; "))
		case <-tick.C:
		}
	}
}

func count(s Saved) (n int) {
	for _, a := range s.Adapters {
		n += len(a.Routes)
	}
	return n
}

// load reads the file once. One that cannot be understood is reported and then left behind by the next Save.
func (k *Keeper) load() error {
	if k.loaded {
		return nil
	}
	data, err := os.ReadFile(k.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading the saved routes of the host: %w", err)
	default:
		if err := json.Unmarshal(data, &k.saved); err != nil {
			k.saved = Saved{}
			klog.Background().Error(err, "The saved routes of the host cannot be read", "file", k.file)
		}
	}
	k.loaded = true
	return nil
}

// pass puts back what is lost. It is complete if nothing is guarded.
func (k *Keeper) pass(ctx context.Context, before Status) (after Status, complete bool) {
	after = k.restore(ctx, before)
	return after, after.Saved == 0 && len(after.Problems) == 0
}

func (k *Keeper) restore(ctx context.Context, status Status) Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.load(); err != nil {
		status.Problems = []string{err.Error()}
		return status
	}
	status.Saved = count(k.saved)
	status.Problems = nil
	if k.saved.At.IsZero() {
		return status
	}
	list, err := k.host.List()
	if err != nil {
		status.Problems = []string{err.Error()}
		return status
	}

	plan := MakePlan(k.saved, time.Now(), list)
	if text := plan.String(); text != k.logged {
		k.logged = text
		klog.FromContext(ctx).Info("Routes of the host", "plan", text)
	}
	for _, l := range plan.Lost {
		err := errors.New("no adapter has its address")
		if l.Ready {
			err = k.host.Add(l.Addr, l.Route)
		}
		if err != nil {
			status.Problems = append(status.Problems,
				fmt.Sprintf(
					"the host's route %s of adapter %s was lost when HNS changed its networks, and is not back: %v",
					l.Route, l.Adapter, err))
			continue
		}
		status.Restored++
	}
	if plan.Forget {
		if err := os.Remove(k.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			status.Problems = append(status.Problems, err.Error())
			return status
		}
		k.saved, status.Saved = Saved{}, 0
	}
	return status
}
