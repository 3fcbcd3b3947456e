package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"porthole.dev/porthole/emulator/firewall"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/atomicfile"
)

// walls keeps the rules of the host's inbound firewall, and applies them while it is on.
type walls struct {
	mu    sync.Mutex
	path  string // of the file that keeps them
	netns string // path of the host's network namespace
	on    bool
}

// turn switches the firewall on, with the rules of the file, or off.
func (w *walls) turn(ctx context.Context, on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = on
	if !on {
		return firewall.Remove(ctx, w.netns)
	}
	// A host without a file has no rules: its firewall lets nothing in.
	var texts []string
	data, err := os.ReadFile(w.path)
	if err == nil {
		err = json.Unmarshal(data, &texts)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the host's firewall rules: %w", err)
	}
	return w.put(ctx, texts)
}

// set replaces the rules by those of a request: a JSON list of texts in the format of Windows' registry.
func (w *walls) set(ctx context.Context, q wire.Request) error {
	var texts []string
	if err := json.Unmarshal([]byte(q.Text[0]), &texts); err != nil {
		return hnsd.ErrInvalidParameter.WithText("firewall rules: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.put(ctx, texts); err != nil {
		return hnsd.ErrInvalidParameter.WithText("%v", err)
	}
	return nil
}

// put keeps the rules in the host's file, and puts them into force before if the firewall is on; under mu. Nothing is
// changed if one cannot be parsed. Rules that do not concern incoming packets are kept and have no effect.
func (w *walls) put(ctx context.Context, texts []string) error {
	var rules []firewall.Rule
	for _, text := range texts {
		r, in, err := firewall.Parse(text)
		if err != nil {
			return err
		}
		if in {
			rules = append(rules, r)
		}
	}

	if w.on {
		if err := firewall.Apply(ctx, w.netns, rules); err != nil {
			return err
		}
	}
	// The file holds all rules as texts, also those that are not in force.
	data, err := json.Marshal(append([]string{}, texts...))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(w.path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(w.path, data, 0o600)
}
