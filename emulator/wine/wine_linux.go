package wine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// ErrNotInstalled is the cause when no 64-bit Wine is found.
var ErrNotInstalled = errors.New("wine64 is missing: apt-get install wine64, or `make root`")

// Tools are the two programs of Wine.
type Tools struct {
	Loader string // wine64
	Server string // wineserver64
}

// Debian is where Debian's package puts Wine.
var Debian = Tools{Loader: "/usr/lib/wine/wine64", Server: "/usr/lib/wine/wineserver64"}

// Find looks for Wine where Debian puts it, then on PATH. The error is ErrNotInstalled.
func Find() (Tools, error) {
	loader := firstProgram(Debian.Loader, "wine64")
	server := firstProgram(Debian.Server, "wineserver64", "wineserver")
	if loader == "" || server == "" {
		return Tools{}, ErrNotInstalled
	}
	return Tools{Loader: loader, Server: server}, nil
}

func firstProgram(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Prefix is one Wine prefix: a registry and a C: drive. Programs of one prefix share one wineserver.
type Prefix struct{ Dir string }

// DriveC is the folder that programs see as C:\.
func (p Prefix) DriveC() string { return filepath.Join(p.Dir, "drive_c") }

// Env is the environment that Wine needs for a program of the prefix; nothing is taken from the caller's environment
// but HNSD_ADDR. The Windows environment (Path, SystemRoot, …) comes from the prefix's registry.
func (t Tools) Env(p Prefix) []string {
	env := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/nonexistent", // Wine would link the user's folders into C:
		"WINEPREFIX=" + p.Dir,
		"WINEARCH=win64",
		"WINEDEBUG=-all",
		"WINESERVER=" + t.Server,
		"WINELOADER=" + t.Loader,
		"WINEDLLOVERRIDES=mscoree,mshtml,winemenubuilder.exe,explorer.exe=;combase,findstr.exe,hnetcfg,hostname.exe,iphlpapi,ipconfig.exe,kernelbase,net.exe,netapi32,netsh.exe,nsi,pdh,ping.exe,sechost,shutdown.exe,virtdisk,where.exe,whoami.exe,ws2_32=n,b",
		"LC_ALL=C.UTF-8",
	}
	if addr, ok := os.LookupEnv("HNSD_ADDR"); ok {
		env = append(env, "HNSD_ADDR="+addr)
	}
	return env
}

// Starter is the program of util-linux that starts Wine's loader, by which a process is known to run under Wine.
const Starter = "/usr/bin/setarch"

// Argv is the Linux command line that runs a Windows program without address space randomization (ASLR). Programs that
// it starts have none either.
//
// Wine must map a page at 0x7ffe0000, as Windows does (KUSER_SHARED_DATA). Debian's loader of Wine is linked at
// 0x7d000000, and Linux 6.9 and later place the heap of such a program (brk) anywhere in the 1 GB after it, sometimes
// on that page. About one start in ten thousand failed: exit code 1 and no message, unless WINEDEBUG=err+all ("failed
// to map the shared user data").
func (t Tools) Argv(exe string, args ...string) []string {
	return append([]string{Starter, "-R", t.Loader, exe}, args...)
}

// Command runs a Windows program of the prefix: exe is a C:\ path, a name on the Windows Path, or a Linux path. The
// caller sets stdio, adds to Env, and starts it in the network namespace that it belongs to. Programs that Wine starts
// beside it keep its pipes: Wait leaves those ten seconds after its end, with exec.ErrWaitDelay.
func (t Tools) Command(ctx context.Context, p Prefix, exe string, args ...string) *exec.Cmd {
	argv := t.Argv(exe, args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = t.Env(p)
	cmd.Dir = p.DriveC()
	cmd.WaitDelay = slow.Limit(10 * time.Second)
	cmd.SysProcAttr = p.asOwner()
	return cmd
}

// ServerCommand is the prefix's wineserver in the foreground, staying when no program runs. It exits at once with code
// 2 if the prefix has one already. SIGTERM ends it and every program of the prefix.
func (t Tools) ServerCommand(p Prefix) *exec.Cmd {
	cmd := exec.Command(t.Server, "-f", "-p")
	cmd.Env = t.Env(p)
	cmd.SysProcAttr = p.asOwner()
	return cmd
}

// StartServer starts the prefix's wineserver, which stays until stop, and Wine's services, as on a Windows that runs.
// start starts a command where programs of the prefix belong, such as in a network namespace. The caller calls stop,
// which ends every program of the prefix.
//
// Without it each program starts both anew. And after the last program the server gives the services two seconds to
// end, in which it takes a new program; if they take longer, it ends that too, with code 1 and without a word (Wine
// 8.0: server_shutdown_timeout of server/process.c).
func (t Tools) StartServer(ctx context.Context, p Prefix, start func(*exec.Cmd) error) (stop func() error, err error) {
	server := t.ServerCommand(p)
	server.SysProcAttr.Setpgid = true
	if err := start(server); err != nil {
		return nil, fmt.Errorf("starting the wineserver of %s: %w", p.Dir, err)
	}
	stop = func() error {
		err := t.StopServer(context.WithoutCancel(ctx), p)
		_ = server.Process.Signal(syscall.SIGTERM) // one that has just started does not hear StopServer
		_ = server.Wait()                          // it was told to end
		return err
	}

	if err := p.waitForServer(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	// without pipes, which the services would keep
	first := t.Command(ctx, p, `C:\windows\system32\cmd.exe`, "/c", "exit")
	err = start(first)
	if err == nil {
		err = first.Wait()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the services of %s: %w", p.Dir, err), stop())
	}
	return stop, nil
}

// waitForServer waits until the prefix's wineserver takes programs, at most ten seconds. One that comes sooner would
// start a server itself.
func (p Prefix) waitForServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(10*time.Second))
	defer cancel()
	for {
		dir, err := p.socketDir()
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "socket")); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the wineserver of %s does not start: no socket in %s: %w", p.Dir, dir, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// StopServer ends the prefix's wineserver and every program of the prefix, and waits for them. None running is success.
func (t Tools) StopServer(ctx context.Context, p Prefix) error {
	for _, arg := range []string{"-k", "-w"} {
		cmd := exec.CommandContext(ctx, t.Server, arg)
		cmd.Env = t.Env(p)
		cmd.SysProcAttr = p.asOwner()
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 2) {
			return fmt.Errorf("stopping the wineserver of %s: %w: %s", p.Dir, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// Processes are those of the prefix, its wineserver among them.
func (p Prefix) Processes() (pids []int, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && strings.Contains("\x00"+platform.ProcessEnviron(pid), "\x00WINEPREFIX="+p.Dir+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// EndAll ends every process of the prefix by its id and waits until they are gone: what StopServer does not reach,
// because the wineserver was killed. Programs do not notice its end and would hang for ever. Those whose prefix is
// another mount of the same folder belong to it.
func (p Prefix) EndAll(limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		pids, err := p.served()
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("ending the programs of %s: %v do not end", p.Dir, pids)
		}
		if err := end(pids); err != nil {
			return fmt.Errorf("ending the programs of %s: %w", p.Dir, err)
		}
	}
}

// served are the processes of the prefix, and those that share memory with its wineserver, under whatever name they
// know the prefix. The wineserver keeps that memory in a folder named by device and inode of the prefix (seen with
// Wine 8.0 in /proc/PID/maps).
func (p Prefix) served() ([]int, error) {
	folder, err := p.serverFolder()
	if err != nil {
		return nil, err
	}
	pids, err := p.Processes()
	if err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && strings.Contains(platform.ProcessMaps(pid), "/"+folder+"/") && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// end kills processes. One that is gone is success.
func end(pids []int) error {
	var errs []error
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// serverName is a file of a prefix with the name of the folder in /tmp that its wineserver made (Debian's Wine 8.0).
const serverName = "wineserver"

// socketDir is where the prefix's wineserver keeps its socket: in a folder named by device and inode of the prefix
// folder. Debian's Wine 8.0 keeps that below /run/user if the user has a folder there, else in one that it makes,
// whose name it writes to a file in the prefix. Upstream's keeps it in a folder of the user.
func (p Prefix) socketDir() (string, error) {
	folder, err := p.serverFolder()
	user := strconv.Itoa(int(p.owner()))
	if _, err := os.Stat(filepath.Join("/run/user", user)); err == nil {
		return filepath.Join("/run/user", user, "wine", folder), nil
	}
	if name, err := p.ReadFile(serverName); err == nil {
		return filepath.Join("/tmp", filepath.Base(string(name)), folder), nil
	}
	return filepath.Join("/tmp", ".wine-"+user, folder), err
}

// serverFolder is the name of the folder that the prefix's wineserver works in.
func (p Prefix) serverFolder() (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(p.Dir, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("server-%x-%x", st.Dev, st.Ino), nil
}
