package scm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/slow"
)

// Windows starts processes of an emulated host; it is its Launcher. It must be used in the host's network namespace.
type Windows struct {
	Tools  wine.Tools
	Prefix wine.Prefix
}

// Launch starts a program as Windows starts that of a service: its working folder is System32, it has no standard
// input, output or error, and its environment has what the value Environment of the service's registry key says. It
// ends with this process.
func (w Windows) Launch(service, commandLine string) (Process, error) {
	for _, candidate := range programs(commandLine) {
		if !wine.IsWindowsPath(candidate[0]) {
			candidate[0] = `C:\windows\system32\` + candidate[0]
		}
		for _, name := range []string{candidate[0], candidate[0] + ".exe"} {
			path, err := w.Prefix.LinuxPath(name)
			if err != nil {
				continue
			}
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
				return w.start(service, name, splitArgs(candidate[1]))
			}
		}
	}
	return nil, FileNotFound
}

// hostDir is the folder of the host whose prefix it is.
func (w Windows) hostDir() string { return filepath.Dir(w.Prefix.Dir) }

// mark tells a process that the service manager has started it, and as which service: it sees services.exe as its
// parent, and reads its environment in the registry (emulator/dll/mend_service.c). noService stands for a program of a
// recovery action.
const (
	mark      = "PORTHOLE_SERVICE="
	noService = "-"
)

// start runs a program of Windows; service is empty for a program that is no service's.
func (w Windows) start(service, program string, args []string) (Process, error) {
	cmd := w.Tools.Command(context.Background(), w.Prefix, program, args...)
	cmd.Dir = filepath.Join(w.Prefix.DriveC(), "windows", "system32")
	cmd.Env = append(cmd.Env, mark+cmp.Or(service, noService))
	// The host's programs end with the service manager.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := confine.Start(context.Background(), w.hostDir(), cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	p := &process{cmd: cmd, pid: confine.InnerPid(cmd.Process.Pid), done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its exit code does not matter, as on Windows
		close(p.done)
	}()
	return p, nil
}

// multiString is what reg.exe prints of a REG_MULTI_SZ.
var multiString = regexp.MustCompile(`(?m)^\s+PreshutdownOrder\s+REG_MULTI_SZ\s+(\S*)\s*$`)

// PreshutdownOrder reads the list from the host's registry. It returns nil if there is none, or if it cannot be read
// within 10 s.
func (w Windows) PreshutdownOrder() []string {
	ctx, cancel := context.WithTimeout(context.Background(), slow.Limit(10*time.Second))
	defer cancel()
	cmd := w.Tools.Command(ctx, w.Prefix, "reg", "query", `HKLM\SYSTEM\CurrentControlSet\Control`, "/v",
		"PreshutdownOrder")
	var out bytes.Buffer
	cmd.WaitDelay, cmd.Stdout = time.Second, &out
	err := confine.Start(ctx, w.hostDir(), cmd)
	if err == nil {
		err = cmd.Wait()
	}
	found := multiString.FindSubmatch(bytes.ReplaceAll(out.Bytes(), []byte("\r"), nil))
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) || found == nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(found[1]), `\0`), `\0`)
}

// Alive implements Launcher.
func (w Windows) Alive(pid int) bool { return confine.Alive(w.hostDir(), pid) }

// process is a program that was started; done is closed when it has ended.
type process struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{}
}

func (p *process) PID() int              { return p.pid }
func (p *process) Done() <-chan struct{} { return p.done }
func (p *process) Kill()                 { _ = p.cmd.Process.Kill() } // one that has ended needs no killing
