package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// Program gives the command that runs a Windows program of the host; it must be started in the host's network namespace.
// name is a C:\ path, a Linux path, or the name of a program in C:\windows\system32. A file of the caller's folder comes
// before one of Windows.
func (h Host) Program(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
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
		return nil, fmt.Errorf("host %s is not running: `porthole host start %s`, or `porthole up` if it belongs to a cluster", h.Name, h.Name)
	}
	exe, err := findProgram(p.DriveC(), name)
	if err != nil {
		return nil, fmt.Errorf("running %s on host %s: %w", name, h.Name, err)
	}
	return tools.Command(ctx, p, exe, args...), nil
}

// Exec replaces the calling process by a Windows program of the host. The program has the caller's stdio, terminal, process id
// and signals, and its exit code goes to the caller's parent. Exec returns only if it fails.
func (h Host) Exec(env []string, name string, args ...string) error {
	cmd, err := h.Program(context.Background(), name, args...)
	if err != nil {
		return err
	}
	if err := h.boot(); err != nil {
		return err
	}
	if term, ok := os.LookupEnv("TERM"); ok {
		cmd.Env = append(cmd.Env, "TERM="+term)
	}
	return platform.InNetns(platform.NetnsPath(h.Netns), func() error {
		if err := os.Chdir(cmd.Dir); err != nil {
			return err
		}
		err := syscall.Exec(cmd.Path, cmd.Args, append(cmd.Env, env...))
		return fmt.Errorf("running %s on host %s: %w", name, h.Name, err)
	})
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

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd, err := h.Program(ctx, `C:\windows\system32\cmd.exe`, "/c", "exit")
	if err != nil {
		return err
	}
	if err := platform.StartInNetns(platform.NetnsPath(h.Netns), cmd); err != nil {
		return fmt.Errorf("booting host %s: %w", h.Name, err)
	}
	if err := cmd.Wait(); err != nil {
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
