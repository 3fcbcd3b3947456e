package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/internal/atomicfile"
)

// takeover plays what becomes of a network card when a virtual switch takes it over, or gives it back: its link goes
// down, and the host loses the card's addresses and routes for a while. The call that made the network has returned by
// then.
type takeover struct {
	plane       DataPlane
	file        string          // what the card has to get back, while it lacks it; a daemon that starts gives it back
	flap        time.Duration   // how long; zero: only routes are lost
	losesRoutes bool            // of hnsd.Profile
	ended       <-chan struct{} // closed when the daemon ends: then the card gets everything back

	mu      sync.Mutex // held while a card is away: one at a time
	running sync.WaitGroup
}

// cardTaker is implemented by a DataPlane whose host has an IP stack.
type cardTaker interface {
	TakeDown(link int, losesRoutes bool, before func(dataplane.CardStack) error) (dataplane.CardStack, error)
	PutBack(dataplane.CardStack) error
	DropRoutes(link int, losesRoutes bool) error
}

// taken returns the links of cards that a switch has taken over or given back.
func taken(before, after []adapter) (links []int) {
	for _, lists := range [][2][]adapter{{before, after}, {after, before}} {
		for _, a := range missing(lists[0], lists[1]) {
			if !a.Virtual && !a.link.Loopback {
				links = append(links, a.link.Index)
			}
		}
	}
	return links
}

// start plays a takeover of each link. With a flap it returns at once. A nil takeover plays nothing.
func (t *takeover) start(ctx context.Context, links []int) {
	if t == nil {
		return
	}
	host, ok := t.plane.(cardTaker)
	if !ok {
		return
	}

	for _, link := range links {
		if t.flap == 0 {
			if err := host.DropRoutes(link, t.losesRoutes); err != nil {
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
func (t *takeover) play(ctx context.Context, host cardTaker, link int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	stack, err := host.TakeDown(link, t.losesRoutes, t.save)
	if err != nil {
		return errors.Join(err, t.finish())
	}
	klog.FromContext(ctx).Info("A virtual switch changes a network card, which has no link and no addresses meanwhile",
		"card", stack.Link, "for", t.flap)
	flap := time.NewTimer(t.flap)
	defer flap.Stop()
	select {
	case <-flap.C:
	case <-t.ended:
	}
	return t.finish()
}

func (t *takeover) save(stack dataplane.CardStack) error {
	data, err := json.Marshal(stack)
	if err != nil {
		return err
	}
	return atomicfile.Write(t.file, data, 0o644)
}

// finish gives the card back what it lacks, if one does.
func (t *takeover) finish() error {
	data, err := os.ReadFile(t.file)
	host, ok := t.plane.(cardTaker)
	if errors.Is(err, os.ErrNotExist) || !ok {
		return nil
	}
	var stack dataplane.CardStack
	if err == nil {
		err = json.Unmarshal(data, &stack)
	}
	if err == nil {
		err = host.PutBack(stack)
	}
	if err == nil {
		err = os.Remove(t.file)
	}
	if err != nil {
		return fmt.Errorf("ending the takeover of a network card: %w", err)
	}
	return nil
}
