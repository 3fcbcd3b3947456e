package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// Command is a Windows program of a host, which runs in the host's box (emulator/confine).
type Command struct {
	*exec.Cmd          // stdio and environment are the caller's to set; it is started by Start only
	Show      []string // folders of this machine that the host sees, read-only, while the program runs

	host Host
	own  string // the program, if it is not on C:
	hide []func() error
}

// Program gives the command that runs a Windows program of the host. name is a C:\ path, a Linux path, or the name of a
// program in C:\windows\system32. A file of the caller's folder comes before one of Windows. A program that is not on
// C: is shown to the host with its folder, or alone if the folder holds what the host itself consists of.
func (h Host) Program(ctx context.Context, name string, args ...string) (*Command, error) {
	if h.OS != "windows" {
		return nil, fmt.Errorf("host %s is a Linux node: it runs no Windows programs", h.Name)
	}
	tools, err := wine.Find()
	if err != nil {
		return nil, err
	}
	p := h.Prefix()
	mounted, err := wine.IsMounted(p.Dir)
	if err != nil {
		return nil, err
	}
	if !mounted || !platform.NetnsExists(h.Netns) {
		return nil,
			fmt.Errorf("host %s is not running: `porthole host start %s`, or `porthole up` if it belongs to a cluster",
				h.Name, h.Name)
	}
	exe, err := findProgram(p.DriveC(), name)
	if err != nil {
		return nil, fmt.Errorf("running %s on host %s: %w", name, h.Name, err)
	}

	c := &Command{host: h}
	if filepath.IsAbs(exe) {
		if exe, err = filepath.EvalSymlinks(exe); err != nil {
			return nil, fmt.Errorf("running %s on host %s: %w", name, h.Name, err)
		}
		c.own = exe
	}
	c.Cmd = tools.Command(ctx, p, exe, args...)
	return c, nil
}

// Start starts the program once the host's wineserver runs. The caller calls Wait.
func (c *Command) Start(ctx context.Context) error {
	if err := c.showAll(ctx); err != nil {
		return errors.Join(err, c.hideAll())
	}
	if err := confine.Start(ctx, c.host.Dir, c.Cmd); err != nil {
		return errors.Join(err, c.hideAll())
	}
	return nil
}

// showAll mounts in the box what the caller named, and the folder of a program that is not on C:, so that the program
// finds its DLLs. If the folder cannot be mounted, the program's file alone is.
func (c *Command) showAll(ctx context.Context) error {
	show := func(path string) error {
		hide, err := confine.Show(ctx, c.host.Dir, path)
		if err == nil {
			c.hide = append(c.hide, hide)
		}
		return err
	}
	if c.own != "" {
		err := show(filepath.Dir(c.own))
		if errors.Is(err, confine.ErrCovers) {
			err = show(c.own)
		}
		if err != nil {
			return err
		}
	}
	for _, path := range c.Show {
		if err := show(path); err != nil {
			return err
		}
	}
	return nil
}

// Wait waits for the end of the program and returns what exec.Cmd.Wait does.
func (c *Command) Wait() error {
	err := c.Cmd.Wait()
	if hidden := c.hideAll(); hidden != nil && confine.Running(c.host.Dir) {
		return errors.Join(err, hidden)
	}
	return err
}

// hideAll takes away what is shown, the last first: it may lie over or in what was shown before.
func (c *Command) hideAll() error {
	var errs []error
	for _, hide := range slices.Backward(c.hide) {
		errs = append(errs, hide())
	}
	c.hide = nil
	return errors.Join(errs...)
}

// Run runs the program to its end.
func (c *Command) Run(ctx context.Context) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	return c.Wait()
}

// boot starts Wine's service manager if it does not run. The first program of a prefix would start it otherwise, and it
// would keep that program's standard error open for ever: a reader that waits for its end would wait for ever too.
func (h Host) boot() error {
	pids, err := platform.NetnsPids(platform.NetnsPath(h.Netns))
	if err != nil {
		return err
	}
	for _, pid := range pids {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(args), `\services.exe`) {
			return nil
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), slow.Limit(30*time.Second))
	defer cancel()
	cmd, err := h.Program(ctx, `C:\windows\system32\cmd.exe`, "/c", "exit")
	if err != nil {
		return err
	}
	if err := cmd.Run(ctx); err != nil {
		return fmt.Errorf("booting host %s: %w", h.Name, err)
	}
	return nil
}

// findProgram gives what Wine's loader understands.
func findProgram(driveC, name string) (string, error) {
	switch {
	case wine.IsWindowsPath(name) || strings.HasPrefix(name, `\`):
		path, err := wine.LinuxPath(driveC, name)
		if err != nil {
			return "", err
		}
		if err := isFile(path); err != nil {
			return "", fmt.Errorf("%w (looked for %s)", err, path)
		}
		return wine.WindowsPath(driveC, path)
	case strings.Contains(name, "/"):
		if err := isFile(name); err != nil {
			return "", err
		}
		return filepath.Abs(name)
	}

	if isFile(name) == nil {
		return filepath.Abs(name)
	}
	for _, file := range []string{name, name + ".exe"} {
		path, err := wine.LinuxPath(driveC, `C:\windows\system32\`+file)
		if err == nil && isFile(path) == nil {
			return wine.WindowsPath(driveC, path)
		}
	}
	return "", errors.New(`no such file here or in C:\windows\system32`)
}

func isFile(path string) error {
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("no such file")
	}
	if err == nil && !st.Mode().IsRegular() {
		return errors.New("not a file")
	}
	return err
}
