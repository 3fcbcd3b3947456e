package adapters

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/routes/keep"
)

// soon is longer than the loop waits for changes that come together, and shorter than its period.
const soon = 40 * time.Millisecond

// fakeHost is the adapters of a host in memory.
type fakeHost struct {
	mu      sync.Mutex
	list    []Adapter
	err     error // of every call
	changed func()
	writes  int
}

func (f *fakeHost) List() ([]Adapter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list), f.err
}

func (f *fakeHost) EnableForwarding(a Adapter) error {
	return f.edit(func(i int) bool { return f.list[i].ID == a.ID }, func(a *Adapter) { a.Forwarding = true })
}

func (f *fakeHost) DeleteDefault(a Adapter, _ netip.Addr) error {
	return f.edit(func(i int) bool { return f.list[i].ID == a.ID }, func(a *Adapter) { a.Defaults = nil })
}

// edit is a call that changes the adapters which is chooses. The caller's own change is reported, too.
func (f *fakeHost) edit(is func(int) bool, do func(*Adapter)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	for i := range f.list {
		if is(i) {
			do(&f.list[i])
		}
	}
	f.writes++
	if f.changed != nil {
		f.changed()
	}
	return nil
}

func (f *fakeHost) Watch(ctx context.Context, changed func()) error {
	f.mu.Lock()
	f.changed = changed
	f.mu.Unlock()
	changed()
	<-ctx.Done()
	return ctx.Err()
}

// happens changes the adapters without the Keeper; Windows reports it if told.
func (f *fakeHost) happens(told bool, do func()) {
	f.mu.Lock()
	do()
	f.mu.Unlock()
	if told {
		f.changed()
	}
}

// started returns a Keeper at work in a bubble, on a host whose adapters are as Windows makes them.
func started(t *testing.T) (*Keeper, *fakeHost) {
	t.Helper()
	f := &fakeHost{list: []Adapter{adapter(1, "vEthernet (Ethernet)", false, "10.99.0.21"),
		adapter(2, "vEthernet (porthole_ep)", false, "10.244.1.2")}}
	k := New(f)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	if err := k.Sync(ctx, wanted); err != nil {
		t.Fatal(err)
	}
	running.Go(func() { k.Run(ctx) })
	bubble.Wait()
	return k, f
}

func mustForward(t *testing.T, k *Keeper, f *fakeHost, repairs int) {
	t.Helper()
	list, _ := f.List()
	for _, a := range list {
		if !a.Forwarding || len(a.Defaults) > 0 {
			t.Errorf("adapter %+v", a)
		}
	}
	s := k.Status()
	if !s.Known || len(s.Problems) > 0 || len(s.Adapters) != 2 || !s.Adapters[0].Forwarding ||
		!s.Adapters[1].Forwarding || s.Repairs != repairs {
		t.Errorf("status %+v, want %d repairs", s, repairs)
	}
}

// Row 1.37.
func TestKeeper(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		k, f := started(t)
		mustForward(t, k, f, 0)
		writes := f.writes
		time.Sleep(time.Minute)
		bubble.Wait()
		if f.writes != writes {
			t.Errorf("%d writes became %d although nothing happened", writes, f.writes)
		}

		// Somebody switches it off: at once if Windows says so, else after the period.
		f.happens(true, func() { f.list[0].Forwarding = false })
		time.Sleep(soon)
		bubble.Wait()
		mustForward(t, k, f, 1)
		f.happens(false, func() { f.list[1].Forwarding = false })
		time.Sleep(keep.DefaultPeriod)
		bubble.Wait()
		mustForward(t, k, f, 2)

		// HNS makes another adapter for the node's address: that is no repair, and the setting is not inherited.
		f.happens(true, func() { f.list[0] = adapter(3, "vEthernet (Ethernet) 2", false, "10.99.0.21") })
		time.Sleep(soon)
		bubble.Wait()
		mustForward(t, k, f, 2)

		f.happens(true, func() { f.list[1].Defaults = []netip.Addr{netip.MustParseAddr("10.244.1.1")} })
		time.Sleep(soon)
		bubble.Wait()
		mustForward(t, k, f, 3)
	})
}

// What cannot be mended is a problem until it is gone, and what cannot be read changes nothing.
func TestProblems(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		k, f := started(t)
		for _, c := range []struct {
			change func()
			want   string
		}{
			{func() { f.list = f.list[:1] }, "no adapter of this host has the pods' gateway 10.244.1.2"},
			{func() { f.err = errors.New("access denied") }, "access denied"},
		} {
			f.happens(true, c.change)
			time.Sleep(soon)
			bubble.Wait()
			s := k.Status()
			if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], c.want) {
				t.Errorf("problems %q, want %q", s.Problems, c.want)
			}
			if err := k.Sync(t.Context(), wanted); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}

		f.happens(true, func() {
			f.err, f.list = nil, append(f.list, adapter(9, "vEthernet (porthole_ep)", false, "10.244.1.2"))
		})
		time.Sleep(soon)
		bubble.Wait()
		mustForward(t, k, f, 0)
	})
}

// An adapter that refuses its settings is named with the reason.
func TestRefusal(t *testing.T) {
	f := &fakeHost{list: []Adapter{adapter(1, "Ethernet", false, "10.99.0.21", "10.244.1.2")}}
	refusing := refusingHost{f}
	err := New(refusing).Sync(t.Context(), wanted)
	if err == nil || !strings.Contains(err.Error(), "enable forwarding on Ethernet") ||
		!strings.Contains(err.Error(), "the parameter is incorrect") {
		t.Errorf("%v", err)
	}
}

type refusingHost struct{ *fakeHost }

func (refusingHost) EnableForwarding(Adapter) error { return errors.New("the parameter is incorrect") }

func TestNameOf(t *testing.T) {
	k := New(&fakeHost{list: []Adapter{adapter(1, "Ethernet 2", false, "10.99.0.21")}})
	if name, err := k.NameOf(wanted.Node); name != "Ethernet 2" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if name, err := k.NameOf(wanted.Host); name != "" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}
