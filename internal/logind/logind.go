// Package logind holds back the shutdown of a Linux machine for a while, by systemd's login manager: a program that
// has something to do before the machine ends takes an inhibitor lock, hears of the shutdown, and lets go when it is
// done (systemd, INHIBITOR_LOCKS).
package logind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	service   = "org.freedesktop.login1"
	path      = dbus.ObjectPath("/org/freedesktop/login1")
	manager   = service + ".Manager"
	signal    = manager + ".PrepareForShutdown"
	maxDelay  = manager + ".InhibitDelayMaxUSec"
	systemd   = "org.freedesktop.systemd1"
	unitsPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// DefaultConfDir is where the login manager reads changes of its configuration.
const DefaultConfDir = "/etc/systemd/logind.conf.d"

// confName is upstream's name of the file in that folder (pkg/kubelet/nodeshutdown/systemd of 1.36.3).
const confName = "99-kubelet.conf"

// Options configure Delay. All fields but Address and ConfDir are required.
type Options struct {
	// Who and Why are shown to administrators by systemd-inhibit --list.
	Who, Why string
	// Time is how long the shutdown has to wait at most. If the login manager waits less, its configuration is changed.
	Time time.Duration
	// ShutDown is called when the machine is about to shut down; the shutdown goes on when it returns. Cancelled is
	// called if the shutdown is not carried out after all.
	ShutDown, Cancelled func()
	// Address is that of the bus; empty for the system's. ConfDir is empty for DefaultConfDir.
	Address, ConfDir string
}

// ErrNoBus says that the machine has no system bus, or no login manager on it.
var ErrNoBus = errors.New("there is no login manager on the system's D-Bus")

// Delay holds shutdowns back until ctx ends or the bus is gone. It calls holding once it does.
func Delay(ctx context.Context, o Options, holding func()) error {
	conn, err := connect(o.Address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoBus, err)
	}
	defer conn.Close()
	d := &delayer{o: o, conn: conn, login: conn.Object(service, path)}
	if err := d.enoughTime(ctx); err != nil {
		return err
	}

	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(manager),
		dbus.WithMatchMember("PrepareForShutdown"), dbus.WithMatchObjectPath(path)); err != nil {
		return fmt.Errorf("subscribing to shutdowns: %w", err)
	}
	news := make(chan *dbus.Signal, 4)
	conn.Signal(news)
	lock, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer func() { lock.Close() }()
	holding()

	for {
		select {
		case <-ctx.Done():
			return nil
		case s, open := <-news:
			if !open {
				return errors.New("the connection with D-Bus is gone")
			}
			begins, known := begins(s)
			if !known {
				continue
			}
			if begins {
				o.ShutDown()
				lock.Close()
				continue
			}
			o.Cancelled()
			if lock, err = d.take(ctx); err != nil {
				return err
			}
		}
	}
}

// connect opens a connection with a bus.
func connect(address string) (*dbus.Conn, error) {
	if address == "" {
		return dbus.ConnectSystemBus()
	}
	return dbus.Connect(address)
}

// begins reports whether a signal tells that a shutdown begins, or that one does not take place. known is false for
// other signals.
func begins(s *dbus.Signal) (begins, known bool) {
	if s == nil || s.Name != signal || len(s.Body) != 1 {
		return false, false
	}
	begins, known = s.Body[0].(bool)
	return begins, known
}

// delayer works on one connection.
type delayer struct {
	o     Options
	conn  *dbus.Conn
	login dbus.BusObject
}

// take takes a lock. The shutdown goes on when it is closed.
func (d *delayer) take(ctx context.Context) (*os.File, error) {
	var fd dbus.UnixFD
	if err := d.login.CallWithContext(ctx, manager+".Inhibit", 0, "shutdown", d.o.Who, d.o.Why, "delay").
		Store(&fd); err != nil {
		return nil, fmt.Errorf("taking a lock of the login manager: %w", err)
	}
	return os.NewFile(uintptr(fd), "inhibitor"), nil
}

// delay returns how long the login manager waits for those who hold a lock.
func (d *delayer) delay(ctx context.Context) (time.Duration, error) {
	var v dbus.Variant
	err := d.login.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, manager, "InhibitDelayMaxUSec").
		Store(&v)
	micros, ok := v.Value().(uint64)
	if err == nil && !ok {
		err = fmt.Errorf("%s is %v", maxDelay, v)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: asking how long shutdowns wait: %w", ErrNoBus, err)
	}
	return time.Duration(micros) * time.Microsecond, nil
}

// reloadWait is how long the login manager may take to read its configuration.
const reloadWait = 5 * time.Second

// enoughTime makes the login manager wait long enough, by its configuration if it does not already.
func (d *delayer) enoughTime(ctx context.Context) error {
	have, err := d.delay(ctx)
	if err != nil || have >= d.o.Time {
		return err
	}
	dir := d.o.ConfDir
	if dir == "" {
		dir = DefaultConfDir
	}
	text := fmt.Sprintf("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=%.0f\n", d.o.Time.Seconds())
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, confName), []byte(text), 0o644)); err != nil {
		return fmt.Errorf("making shutdowns wait for %v: %w", d.o.Time, err)
	}
	// SIGHUP
	if err := d.conn.Object(systemd, unitsPath).
		CallWithContext(ctx, systemd+".Manager.KillUnit", 0, "systemd-logind.service", "all",
			int32(1)).Err; err != nil {
		return fmt.Errorf("having the login manager read its configuration: %w", err)
	}

	for end := time.Now().Add(reloadWait); ; {
		if have, err = d.delay(ctx); err != nil || have >= d.o.Time {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("shutdowns wait for %v, less than the %v that are asked for", have, d.o.Time)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
