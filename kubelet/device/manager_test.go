package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"porthole.dev/porthole/internal/testkit/deviceplugin"
	"porthole.dev/porthole/internal/testkit/wait"
)

// serve starts a plugin and registers it.
func serve(t *testing.T, dir, socket string, p *deviceplugin.Plugin) *deviceplugin.Plugin {
	t.Helper()
	p.Resource = gpu
	if err := p.Serve(t.Context(), dir, socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// world is a manager with its folder.
type world struct {
	*Manager
	dir  string
	stop func()
	gone map[types.UID]bool
}

// start makes a manager over a folder and serves it.
func start(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{dir: dir, gone: map[types.UID]bool{}}
	var err error
	w.Manager, err = New(Options{Dir: dir, Changed: func([]types.UID) {},
		Alive: func(uid types.UID) (bool, bool) { return !w.gone[uid], true }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(w.stop)
	wait.NoError(t, 10*time.Second, "the kubelet's socket",
		func() error { _, err := os.Stat(filepath.Join(dir, socketName)); return err })
	return w
}

// has waits until the node has so many devices.
func (w *world) has(t *testing.T, allocatable, capacity int64) {
	t.Helper()
	wait.NoError(t, 10*time.Second, "the node's devices", func() error {
		a := w.Amounts()
		c, al := a.Capacity[gpu], a.Allocatable[gpu]
		if al.Value() != allocatable || c.Value() != capacity {
			return fmt.Errorf("%d of %d, want %d of %d", al.Value(), c.Value(), allocatable, capacity)
		}
		return nil
	})
}

// env is what a container has of the plugin.
func (w *world) env(t *testing.T, p *v1.Pod, container string) string {
	t.Helper()
	for _, one := range containersOf(p) {
		if one.Name == container {
			c, err := w.Prepare(t.Context(), p, one)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(c.Env)
		}
	}
	t.Fatalf("no container %s", container)
	return ""
}

// TestLife: a plugin registers, its devices are given, a restart of the kubelet forgets nothing, and what is lost is
// told.
func TestLife(t *testing.T) {
	dir := t.TempDir()
	w := start(t, dir)
	f := serve(t, dir, "gpu.sock",
		&deviceplugin.Plugin{Options: api.DevicePluginOptions{PreStartRequired: true,
			GetPreferredAllocationAvailable: true}})
	f.List("a@0 b@1 c d")
	w.has(t, 4, 4)

	first := asking("first", "init", 2, "app", 1, "other", 1)
	if err := w.Allocate(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// The init container gets what the plugin prefers (d) and the first; the others get these again.
	if got := f.Did(); got != "prefer 2 of [a b c d] with []; allocate [d a]; allocate [a]; allocate [d]" {
		t.Errorf("calls: %s", got)
	}
	if err := w.Allocate(t.Context(), first); err != nil || f.Did() != "" {
		t.Errorf("again: %v, or the plugin was asked", err)
	}
	if got := w.env(t, first, "app"); got != "[{DEVICES a}]" || f.Did() != "prestart [a]" {
		t.Errorf("the container gets %s", got)
	}

	third := asking("third", "app", 3)
	if err := w.Allocate(t.Context(), third); err == nil ||
		!strings.Contains(err.Error(), "Requested: 3, Available: 2") {
		t.Errorf("too many: %v", err)
	}

	w.stop() // as kill -9 would: nothing is written at the end
	w = start(t, dir)
	w.has(t, 0, 0)
	if got := w.env(t, first, "other"); got != "[{DEVICES d}]" {
		t.Errorf("after a restart, before the plugin is back: %s", got)
	}
	g := serve(t, dir, "gpu2.sock", &deviceplugin.Plugin{})
	g.List("a b! c d")
	w.has(t, 3, 4)
	second := asking("second", "app", 1)
	if err := w.Allocate(t.Context(), second); err != nil || g.Did() != "allocate [c]" {
		t.Errorf("the one that is healthy and free: %v", err)
	}
	g.List("a! b! c d")
	w.has(t, 2, 4)
	if q := w.Raised("first", v1.ResourceList{gpu: w.Amounts().Allocatable[gpu]})[gpu]; q.Value() != 3 {
		t.Errorf("pods that have their devices count %d, want the 3 that are held", q.Value())
	}

	w.Release("first")
	if err := w.Allocate(t.Context(), asking("fourth", "app", 1)); err != nil || g.Did() != "allocate [d]" {
		t.Errorf("after the release: %v", err)
	}
	g.Stop()
	w.has(t, 0, 4)
}

// TestFaults: what a pod could not get whole it does not have at all, and a claim that somebody left is freed.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	w := start(t, dir)
	answer := func([]string) error { return nil }
	f := serve(t, dir, "gpu.sock",
		&deviceplugin.Plugin{Answer: func(ids []string) (*api.ContainerAllocateResponse, error) {
			return &api.ContainerAllocateResponse{}, answer(ids)
		}})
	f.List("a b")
	w.has(t, 2, 2)

	answer = func(ids []string) error {
		if ids[0] == "b" {
			return errors.New("broken")
		}
		return nil
	}
	if err := w.Allocate(t.Context(), asking("one", "x", 1, "y", 1)); err == nil ||
		!strings.Contains(err.Error(), "broken") {
		t.Errorf("a plugin that fails: %v", err)
	}
	answer = func([]string) error { return nil }
	if err := w.Allocate(t.Context(), asking("two", "x", 2)); err != nil {
		t.Errorf("after a failure not all are free: %v", err)
	}
	w.gone["two"] = true
	if err := w.Allocate(t.Context(), asking("three", "x", 2)); err != nil {
		t.Errorf("those of a pod that is gone: %v", err)
	}

	hold := make(chan struct{})
	answer = func([]string) error { <-hold; return nil }
	f.Did()
	w.Release("three")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Allocate(t.Context(), asking("four", "x", 1)) }()
	wait.NoError(t, 10*time.Second, "the call", func() error {
		if !strings.Contains(f.Did(), "allocate") {
			return errors.New("not yet")
		}
		return nil
	})
	go cancel()
	if err := w.Allocate(ctx, asking("five", "x", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("while the plugin hangs: %v", err)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Error(err)
	}

	if err := deviceplugin.Register(t.Context(), dir,
		&api.RegisterRequest{Version: "v0", ResourceName: gpu, Endpoint: "x"}); err == nil ||
		!strings.Contains(err.Error(), "v0") {
		t.Errorf("another version: %v", err)
	}
}

// TestCorruptCheckpoint: a file that cannot be read is told, and the plugin's devices can be given.
func TestCorruptCheckpoint(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, checkpointName), []byte(`{"Data":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := New(Options{Dir: dir}); err == nil || m == nil {
		t.Errorf("a broken file: %v", err)
	}
}
