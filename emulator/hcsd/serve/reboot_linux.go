package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/internal/wakeup"
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

// reboot ends all systems, and detaches the disks of containers' layers, as the end of Windows does. Most systems have
// lost their last handle with the host's programs, by which they end; those of an earlier daemon do not.
func (s *Service) reboot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(rebootLimit))
	defer cancel()
	s.runner.kill(ctx, s.systems.StopAll()...)
	for s.systems.Runs() > 0 {
		if !wakeup.Pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("waiting for the end of all systems: %w", ctx.Err())
		}
	}
	return s.layers.Detach()
}
