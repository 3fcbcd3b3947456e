package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Systemd is the service manager of most Linux machines, over D-Bus.
type Systemd struct{}

// HasSystemd reports whether systemd started this machine, by the test that sd_booted(3) documents.
func HasSystemd() bool {
	st, err := os.Lstat("/run/systemd/system")
	return err == nil && st.IsDir()
}

// Name returns systemd.
func (Systemd) Name() string { return "systemd" }

func withSystemd[T any](ctx context.Context, f func(*dbus.Conn) (T, error)) (out T, err error) {
	c, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		c, err = dbus.NewSystemdConnectionContext(ctx) // without a bus: systemd's own socket, for root
	}
	if err != nil {
		return out, fmt.Errorf("connecting to systemd: %w", err)
	}
	defer c.Close()
	return f(c)
}

// Running reports whether the unit is active and enabled.
func (Systemd) Running(ctx context.Context, unit string) (bool, error) {
	return withSystemd(ctx, func(c *dbus.Conn) (bool, error) {
		p, err := c.GetUnitPropertiesContext(ctx, unit+".service")
		if err != nil {
			return false, err
		}
		return p["ActiveState"] == "active" && p["UnitFileState"] == "enabled", nil
	})
}

// Start enables the unit, reads its files again and starts it, or restarts it if it runs.
func (Systemd) Start(ctx context.Context, unit string) error {
	_, err := withSystemd(ctx, func(c *dbus.Conn) (any, error) {
		if err := c.ReloadContext(ctx); err != nil {
			return nil, err
		}
		if _, _, err := c.EnableUnitFilesContext(ctx, []string{unit + ".service"}, false, true); err != nil {
			return nil, err
		}
		return nil, job(ctx, func(done chan<- string) error {
			_, err := c.RestartUnitContext(ctx, unit+".service", "replace", done)
			return err
		})
	})
	return err
}

// Stop stops and disables the unit.
func (Systemd) Stop(ctx context.Context, unit string) error {
	_, err := withSystemd(ctx, func(c *dbus.Conn) (any, error) {
		err := job(ctx, func(done chan<- string) error {
			_, err := c.StopUnitContext(ctx, unit+".service", "replace", done)
			return err
		})
		if missing(err) {
			return nil, nil
		}
		_, disable := c.DisableUnitFilesContext(ctx, []string{unit + ".service"}, false)
		if missing(disable) {
			disable = nil
		}
		return nil, errors.Join(err, disable, c.ReloadContext(ctx))
	})
	return err
}

func missing(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "not loaded") || strings.Contains(err.Error(), "not found") ||
		strings.Contains(err.Error(), "No such file"))
}

// job waits for the end of a job of systemd.
func job(ctx context.Context, start func(done chan<- string) error) error {
	done := make(chan string, 1)
	if err := start(done); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("systemd's job ended as %q: see systemctl status and journalctl", result)
		}
		return nil
	}
}
