package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// terminal is a kubectl that runs on a pseudo-terminal (pty(7)), as if somebody had typed its command.
type terminal struct {
	t     *testing.T
	f     *os.File
	out   testkit.Buffer
	args  []string
	ended chan error
}

// onTerminal starts kubectl on a new terminal. It is killed when the test ends.
func onTerminal(t *testing.T, columns, lines uint16, args ...string) *terminal {
	t.Helper()
	f, far := openTerminal(t)
	term := &terminal{t: t, f: f, args: args, ended: make(chan error, 1)}
	term.resize(columns, lines)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, porthole, append([]string{"kubectl", "--dir", dir}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // a change of the size is told to it
	err := cmd.Start()
	far.Close()
	if err != nil {
		t.Fatal(err)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&term.out, f) // it ends with an error when the terminal's last program has gone
		term.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		f.Close()
	})
	return term
}

// openTerminal opens a new terminal: the end of the test, and that of a program.
func openTerminal(t *testing.T) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetUint32(int(near.Fd()), unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0))
	if err == nil {
		far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		near.Close()
		t.Fatalf("making a terminal: %v", err)
	}
	return near, far
}

func (c *terminal) resize(columns, lines uint16) {
	c.t.Helper()
	if err := unix.IoctlSetWinsize(int(c.f.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: columns, Row: lines}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *terminal) types(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.f, text); err != nil {
		c.t.Fatal(err)
	}
}

// shows waits until a text is on the terminal.
func (c *terminal) shows(text string) {
	c.t.Helper()
	wait.NoError(c.t, podWait, fmt.Sprintf("%q on the terminal of kubectl %s", text, c.args[0]), func() error {
		if out := c.out.String(); !strings.Contains(out, text) {
			return fmt.Errorf("it shows %q", out)
		}
		return nil
	})
}

// ends waits until kubectl has ended, with the exit code of its program.
func (c *terminal) ends(code int) {
	c.t.Helper()
	select {
	case err := <-c.ended:
		got := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			got, err = exit.ExitCode(), nil
		}
		if got != code || err != nil {
			c.t.Errorf("kubectl %s ended with %d, %v, want %d; the terminal shows %q", c.args[0], got, err, code,
				c.out.String())
		}
	case <-time.After(time.Minute):
		c.t.Errorf("kubectl %s has not ended; the terminal shows %q", c.args[0], c.out.String())
	}
}
