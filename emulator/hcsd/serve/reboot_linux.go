package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/internal/slow"
)

// rebootLimit is how long systems may take to end.
const rebootLimit = 20 * time.Second

// Reboot tells the daemon of the host in hostDir that the host's kernel has ended. No daemon is success: then the next
// one finds the layers.
func Reboot(ctx context.Context, hostDir string) error {
	client := &http.Client{Timeout: 2 * rebootLimit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", Socket(hostDir))
		}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://hcsd/reboot", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("telling HCS of the host's end: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}

	var failed struct{ Error string }
	if err := json.NewDecoder(answer.Body).Decode(&failed); err != nil {
		return fmt.Errorf("telling HCS of the host's end: %s: %w", answer.Status, err)
	}
	return fmt.Errorf("telling HCS of the host's end: %s", failed.Error)
}

// reboot ends all systems, and detaches the disks of containers' layers, as the end of Windows does: containerd
// removes a snapshot that it has forgotten only when something else has changed often enough, and nobody unprepares
// its layer.
func (s *Service) reboot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(rebootLimit))
	defer cancel()
	s.endSystems(ctx)
	if err := poll(ctx, 20*time.Millisecond, func() bool { return !s.anyRuns() }); err != nil {
		return fmt.Errorf("waiting for the end of all systems: %w", err)
	}

	calls := layerCalls{s}
	s.layers.Lock()
	defer s.layers.Unlock()
	states, err := filepath.Glob(filepath.Join(s.o.layerDir("*"), layerFile))
	if err != nil {
		return err
	}
	var all []error
	for _, file := range states {
		id := filepath.Base(filepath.Dir(file))
		st, err := calls.readLayer(id)
		if err == nil {
			siloCalls{s}.dropSilosOn(id)
			st.Active = false
			err = errors.Join(calls.hideLayer(id), calls.writeLayer(id, st))
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// endSystems begins the end of all systems. Most have lost their last handle with the host's programs, by which they
// end; those of an earlier daemon do not.
func (s *Service) endSystems(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sys := range s.systems {
		if c := s.live[id]; c != nil && errors.Is(sys.Stop(), hcsd.ErrPending) {
			systemCalls{s}.terminate(ctx, c)
		}
	}
}

func (s *Service) anyRuns() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sys := range s.systems {
		if sys.State == hcsd.Running {
			return true
		}
	}
	return false
}
