package logind

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"porthole.dev/porthole/internal/testkit/wait"
)

// busConf lets everybody say everything on a bus of the test's own.
const busConf = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:dir=DIR</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

// login is a login manager and a systemd on a real bus.
type login struct {
	conn *dbus.Conn
	conf string
	mu   sync.Mutex
	held []*os.File // our ends of the locks
	prop *prop.Properties
}

// Inhibit is part of the login manager's API.
func (l *login) Inhibit(what, who, _, mode string) (dbus.UnixFD, *dbus.Error) {
	if what != "shutdown" || mode != "delay" || who == "" {
		return 0, dbus.MakeFailedError(errors.New(what + mode + who))
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, ours)
	time.AfterFunc(time.Second, func() { theirs.Close() }) // it was sent by then
	return dbus.UnixFD(theirs.Fd()), nil
}

// KillUnit is part of systemd's API: the login manager reads its configuration.
func (l *login) KillUnit(unit, _ string, number int32) *dbus.Error {
	data, err := os.ReadFile(filepath.Join(l.conf, confName))
	if err != nil || unit != "systemd-logind.service" || number != 1 {
		return dbus.MakeFailedError(errors.New(unit))
	}
	if strings.Contains(string(data), "InhibitDelayMaxSec=40\n") {
		l.prop.SetMust(manager, "InhibitDelayMaxUSec", uint64(40e6))
	}
	return nil
}

// locks counts the locks that were given, and those that are still held.
func (l *login) locks() (given, held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.held {
		_ = f.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := f.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			held++
		}
	}
	return len(l.held), held
}

func (l *login) tell(t *testing.T, begins bool) {
	t.Helper()
	if err := l.conn.Emit(path, signal, begins); err != nil {
		t.Fatal(err)
	}
}

// newBus starts a bus with a login manager. The test is skipped where there is no dbus-daemon.
func newBus(t *testing.T) (*login, string) {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("there is no dbus-daemon: tools/deps installs it")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(conf, []byte(strings.Replace(busConf, "DIR", dir, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "dbus-daemon", "--config-file="+conf, "--nofork", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)

	l := &login{conf: filepath.Join(dir, "conf.d")}
	if l.conn, err = dbus.Connect(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.conn.Close() })
	l.prop, err = prop.Export(l.conn, path, prop.Map{manager: {"InhibitDelayMaxUSec": {Value: uint64(5e6)}}})
	err = errors.Join(err, l.conn.Export(l, path, manager), l.conn.Export(l, unitsPath, systemd+".Manager"))
	for _, name := range []string{service, systemd} {
		_, nameErr := l.conn.RequestName(name, dbus.NameFlagDoNotQueue)
		err = errors.Join(err, nameErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l, address
}

// TestDelay: a shutdown waits until what has to be done is done, a cancelled one is told, and the next one waits again.
func TestDelay(t *testing.T) {
	l, address := newBus(t)
	begun, goOn, cancelled, holding := make(chan bool, 4), make(chan bool), make(chan bool, 4), make(chan bool, 1)
	o := Options{Who: "kubelet", Why: "pods", Time: 40 * time.Second, Address: address, ConfDir: l.conf,
		ShutDown: func() { begun <- true; <-goOn }, Cancelled: func() { cancelled <- true }}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Delay(ctx, o, func() { holding <- true }) }()
	expect := func(what string, c chan bool) {
		t.Helper()
		select {
		case <-c:
		case err := <-done:
			t.Fatalf("%s: it ended: %v", what, err)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nothing happened", what)
		}
	}
	locks := func(what string, given, held int) {
		t.Helper()
		wait.True(t, 20*time.Second, what, func() bool { g, h := l.locks(); return g == given && h == held })
	}

	expect("the lock", holding)
	locks("one lock", 1, 1)
	for round := 1; round <= 2; round++ {
		l.tell(t, true)
		expect("the shutdown", begun)
		locks("the lock during the work", round, 1)
		goOn <- true
		locks("no lock after the work", round, 0)
		l.tell(t, false)
		expect("the end of the shutdown", cancelled)
		locks("another lock", round+1, 1)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	locks("no lock at the end", 3, 0)
}

// TestNoTime: a login manager that does not wait long enough is told, and a machine without a bus too.
func TestNoTime(t *testing.T) {
	l, address := newBus(t)
	o := Options{Who: "kubelet", Why: "pods", Time: time.Hour, Address: address, ConfDir: l.conf}
	if err := Delay(t.Context(), o, func() {}); err == nil ||
		!strings.Contains(err.Error(), "shutdowns wait for 5s, less than the 1h0m0s") {
		t.Errorf("an hour: %v", err)
	}
	o.Address = "unix:path=" + filepath.Join(t.TempDir(), "none")
	if err := Delay(t.Context(), o, func() {}); !errors.Is(err, ErrNoBus) {
		t.Errorf("no bus: %v", err)
	}
}
