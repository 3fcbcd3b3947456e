package ipstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/internal/atomicfile"
)

// Takeover plays what becomes of a network card when a virtual switch takes it over, or gives it back: its link goes
// down, and the host loses the card's addresses and routes for a while. The call that made the network has returned by
// then.
type Takeover struct {
	TakeoverOptions

	mu      sync.Mutex // held while a card is away: one at a time
	running sync.WaitGroup
}

// TakeoverOptions of a Takeover.
type TakeoverOptions struct {
	Plane       any
	File        string          // what the card has to get back, while it lacks it; a daemon that starts gives it back
	Flap        time.Duration   // how long; zero: only routes are lost
	LosesRoutes bool            // of hnsd.Profile
	Ended       <-chan struct{} // closed when the daemon ends: then the card gets everything back
}

// NewTakeover returns one that plays nothing yet.
func NewTakeover(o TakeoverOptions) *Takeover { return &Takeover{TakeoverOptions: o} }

// Wait returns when no card is away.
func (t *Takeover) Wait() { t.running.Wait() }

// cardTaker is implemented by a data plane whose host has an IP stack.
type cardTaker interface {
	TakeDown(link int, losesRoutes bool, before func(hoststack.Card) error) (hoststack.Card, error)
	PutBack(hoststack.Card) error
	DropRoutes(link int, losesRoutes bool) error
}

// taken returns the links of cards that a switch has taken over or given back.
func taken(before, after []adapter) (links []int) {
	// The lists are compared in both directions: cards that lost their addresses, and cards that
	// have them again.
	for _, lists := range [][2][]adapter{{before, after}, {after, before}} {
		for _, a := range missing(lists[0], lists[1]) {
			if !a.Virtual && !a.link.Loopback {
				links = append(links, a.link.Index)
			}
		}
	}
	return links
}

// start plays a takeover of each link. With a flap it returns at once. A nil Takeover plays nothing.
func (t *Takeover) start(ctx context.Context, links []int) {
	if t == nil {
		return
	}
	host, ok := t.Plane.(cardTaker)
	if !ok {
		return
	}

	for _, link := range links {
		if t.Flap == 0 {
			if err := host.DropRoutes(link, t.LosesRoutes); err != nil {
				klog.FromContext(ctx).Error(err, "A network card that was taken over keeps its routes")
			}
			continue
		}
		t.running.Go(func() {
			if err := t.play(ctx, host, link); err != nil {
				klog.FromContext(ctx).Error(err, "Taking a network card over")
			}
		})
	}
}

// play takes one card down for the time of a flap.
// What the card has is written to a file (save) before the card loses it: a daemon that is killed meanwhile gives it
// back when it starts again.
func (t *Takeover) play(ctx context.Context, host cardTaker, link int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	stack, err := host.TakeDown(link, t.LosesRoutes, t.save)
	if err != nil {
		return errors.Join(err, t.Finish())
	}
	klog.FromContext(ctx).Info("A virtual switch changes a network card, which has no link and no addresses meanwhile",
		"card", stack.Link, "for", t.Flap)
	flap := time.NewTimer(t.Flap)
	defer flap.Stop()
	select {
	case <-flap.C:
	case <-t.Ended:
	}
	return t.Finish()
}

// save keeps what a card has to get back.
func (t *Takeover) save(stack hoststack.Card) error {
	data, err := json.Marshal(stack)
	if err != nil {
		return err
	}
	return atomicfile.Write(t.File, data, 0o644)
}

// Finish gives the card back what it lacks, if one does.
// The file is removed only when the card has everything.
func (t *Takeover) Finish() error {
	data, err := os.ReadFile(t.File)
	host, ok := t.Plane.(cardTaker)
	if errors.Is(err, os.ErrNotExist) || !ok {
		return nil
	}
	var stack hoststack.Card
	if err == nil {
		err = json.Unmarshal(data, &stack)
	}
	if err == nil {
		err = host.PutBack(stack)
	}
	if err == nil {
		err = os.Remove(t.File)
	}
	if err != nil {
		return fmt.Errorf("ending the takeover of a network card: %w", err)
	}
	return nil
}
