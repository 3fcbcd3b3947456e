package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	// connectTimeout bounds a connection to systemd, unitTimeout one call with the job that it begins
	// (opencontainers/cgroups waits 30 s too).
	connectTimeout = 10 * time.Second
	unitTimeout    = 30 * time.Second
	// lookPeriod is how often a unit is looked at whose job has not ended; most jobs take a few milliseconds.
	lookPeriod = 2 * time.Second
)

// bus is systemd over D-Bus: over the bus of the machine, or by systemd's own socket where there is none. It connects
// again after the connection is lost. It is safe for concurrent use.
type bus struct {
	mu   sync.Mutex
	conn *dbus.Conn
}

// connection returns the connection, which it makes. Its context ends the connection, not only the attempt.
func (b *bus) connection() (*dbus.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil && b.conn.Connected() {
		return b.conn, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(connectTimeout, cancel)
	conn, err := dbus.NewWithContext(ctx)
	if err == nil && !late.Stop() {
		conn.Close()
		err = errors.New("it does not answer")
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connecting to systemd by D-Bus: %w", err)
	}
	if b.conn != nil {
		b.conn.Close()
	}
	b.conn = conn
	return conn, nil
}

// call calls systemd, a second time if the connection turns out to be lost.
func (b *bus) call(f func(context.Context, *dbus.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), unitTimeout)
	defer cancel()
	for again := false; ; again = true {
		conn, err := b.connection()
		if err != nil {
			return err
		}
		if err = f(ctx, conn); again || !errors.Is(err, godbus.ErrClosed) {
			return err
		}
		conn.Close() // so that it does not count as connected
	}
}

// job calls systemd, and waits for the end of the job of a unit that the call begins.
//
// The end is told by a signal. A systemd that starts itself anew (daemon-reexec) loses it, so the unit is looked at
// too.
func (b *bus) job(unit string, begin func(ctx context.Context, conn *dbus.Conn, done chan<- string) error) error {
	return b.call(func(ctx context.Context, conn *dbus.Conn) error {
		done := make(chan string, 1)
		if err := begin(ctx, conn, done); err != nil {
			return err
		}
		look := time.NewTicker(lookPeriod)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return fmt.Errorf("systemd's job did not end within %s", unitTimeout)
			case result := <-done:
				if result != "done" {
					return fmt.Errorf("systemd's job ended as %q: see systemctl status and journalctl", result)
				}
				return nil
			case <-look.C:
				if idle(ctx, conn, unit) {
					return nil
				}
			}
		}
	})
}

// idle reports whether a unit has no job.
func idle(ctx context.Context, conn *dbus.Conn, unit string) bool {
	p, err := conn.GetUnitPropertyContext(ctx, unit, "Job")
	if err != nil {
		return false
	}
	job, ok := p.Value.Value().([]any) // number and path
	return ok && len(job) == 2 && job[0] == uint32(0)
}

func (b *bus) start(unit string, properties []property) error {
	begin := func(ctx context.Context, conn *dbus.Conn, done chan<- string) error {
		_, err := conn.StartTransientUnitContext(ctx, unit, "replace", variants(properties), done)
		return err
	}
	err := b.job(unit, begin)
	if !is(err, "UnitExists") {
		return err
	}

	// It runs, or there is a file for it, or it failed once.
	_ = b.forget(unit)
	err = b.job(unit, func(ctx context.Context, conn *dbus.Conn, done chan<- string) error {
		_, err := conn.StartUnitContext(ctx, unit, "replace", done)
		return err
	})
	if is(err, "NoSuchUnit") {
		return b.job(unit, begin)
	}
	if err != nil {
		return err
	}
	return b.set(unit, changeable(properties)...)
}

func (b *bus) set(unit string, properties ...property) error {
	return b.call(func(ctx context.Context, conn *dbus.Conn) error {
		return conn.SetUnitPropertiesContext(ctx, unit, true, variants(properties)...)
	})
}

func (b *bus) stop(unit string) error {
	err := b.job(unit, func(ctx context.Context, conn *dbus.Conn, done chan<- string) error {
		_, err := conn.StopUnitContext(ctx, unit, "replace", done)
		return err
	})
	if is(err, "NoSuchUnit") {
		return nil
	}
	_ = b.forget(unit) // most units do not end as failed
	return err
}

// forget resets the failed state of a unit (systemctl reset-failed). systemd keeps a transient unit that failed until
// then.
func (b *bus) forget(unit string) error {
	return b.call(func(ctx context.Context, conn *dbus.Conn) error { return conn.ResetFailedUnitContext(ctx, unit) })
}

// changeable are the properties that can be set of a unit that runs.
func changeable(properties []property) (out []property) {
	for _, p := range properties {
		if p.name != "Description" && p.name != "Wants" && p.name != "DefaultDependencies" {
			out = append(out, p)
		}
	}
	return out
}

func variants(properties []property) (out []dbus.Property) {
	for _, p := range properties {
		out = append(out, dbus.Property{Name: p.name, Value: godbus.MakeVariant(p.value)})
	}
	return out
}

// is reports whether systemd answered with the error of that name.
func is(err error, name string) bool {
	var answer godbus.Error
	return errors.As(err, &answer) && strings.HasSuffix(answer.Name, "."+name)
}
