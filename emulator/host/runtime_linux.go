package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/pealign"
	"porthole.dev/porthole/internal/slow"
)

// ContainerdExe is the container runtime of a host, and of each Windows node of a cluster: containerd.exe and runhcs,
// unmodified.
const ContainerdExe = "containerd.exe"

// RuntimePipe is the named pipe at which it serves CRI, containerd's default on Windows.
const RuntimePipe = `\\.\pipe\containerd-containerd`

// CheckRuntime reports whether a host on its own can have the runtime of that name. "" is none.
func CheckRuntime(name string) error {
	if name != "" && name != ContainerdExe {
		return fmt.Errorf("runtime %q is not known: only %s", name, ContainerdExe)
	}
	return nil
}

// runtimeFolder is where the runtime lies on C:, as the scripts of sig-windows-tools and cloud images install it.
const runtimeFolder = `C:\Program Files\containerd`

// RuntimePrograms are the files of the runtime; they are in bin/bundle/windows.
var RuntimePrograms = []string{"containerd.exe", "containerd-shim-runhcs-v1.exe"}

// runtimeTool is containerd's own client, for people and tests. It lies beside the runtime if it was built.
const runtimeTool = "ctr.exe"

// runtimeConfig is what an administrator changes of containerd's configuration: where CNI is, and where the
// registries' mirrors are. The handler of Hyper-V isolation, which containerd's defaults have with SandboxIsolation 1
// (internal/cri/config/config_windows.go), would ask the host for a virtual machine: it is one of process isolation
// here. All else has containerd's defaults, and conf.d beside this file is read too.
const runtimeConfig = `version = 4
imports = ['C:\Program Files\containerd\conf.d\*.toml']

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = 'C:\etc\containerd\certs.d'

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['C:\opt\cni\bin']
  conf_dir = 'C:\etc\cni\net.d'

# This host is emulated and has no Hyper-V. The handler runs its containers as processes of the host, so that what uses it can be tried.
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runhcs-wcow-hypervisor]
  runtime_type = 'io.containerd.runhcs.v1'
  container_annotations = ['io.microsoft.container.*']
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runhcs-wcow-hypervisor.options]
    SandboxIsolation = 0
    ScaleCpuLimitsToSandbox = false
    ScrubLogs = true
`

// sandboxConfig is added where the image of sandboxes is not containerd's default.
const sandboxConfig = `
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '%s'
`

// RuntimeLayer returns a folder with the runtime's programs that lies below the C: of all hosts that have it, so that
// they are on the disk and in memory once. While a host is mounted over it the folder stays as it is.
func (s Store) RuntimeLayer() (dir string, err error) {
	dir = filepath.Join(s.Dir, "wine", "runtime")
	if wine.IsLower(dir) {
		return dir, nil
	}
	to := onC(filepath.Join(dir, "drive_c"), runtimeFolder)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", fmt.Errorf("installing %s: %w", ContainerdExe, err)
	}
	for _, name := range append([]string{runtimeTool}, RuntimePrograms...) {
		err := copyProgram(filepath.Join(s.Bin, "bundle", "windows", name), filepath.Join(to, name))
		if errors.Is(err, os.ErrNotExist) && name == runtimeTool {
			continue
		}
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w (make windows-runtime builds it)", err)
		}
		if err != nil {
			return "", fmt.Errorf("installing %s: %w", ContainerdExe, err)
		}
	}
	return dir, wine.Own(filepath.Join(dir, "drive_c"))
}

// onC returns the Linux path of a C:\ path whose case is that of the files.
func onC(driveC, path string) string {
	return filepath.Join(driveC, strings.ReplaceAll(strings.TrimPrefix(path, `C:\`), `\`, "/"))
}

// copyProgram copies a Windows program, or does nothing if to has its time already. In the copy the sections lie at
// whole pages, so that Wine maps them and all processes of it have them in memory once; what is loaded is the same. A
// program that cannot be laid out so, such as a signed one, is copied as it is.
func copyProgram(from, to string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if have, err := os.Stat(to); err == nil && have.ModTime().Equal(st.ModTime()) {
		return nil
	}
	err = pealign.File(from, to)
	if err == nil {
		return os.Chtimes(to, st.ModTime(), st.ModTime())
	}
	if !errors.Is(err, pealign.ErrRefused) {
		return err
	}

	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		return err
	}
	return errors.Join(os.Chtimes(to+".new", st.ModTime(), st.ModTime()), os.Rename(to+".new", to))
}

// WriteRuntimeFiles makes the folders and files that an administrator makes for containerd. A configuration that is
// there stays. sandboxImage is the image of pods' sandboxes; "" is containerd's default.
func (h Host) WriteRuntimeFiles(sandboxImage string) error {
	p := h.Prefix()
	for _, dir := range []string{runtimeFolder + `\conf.d`, `C:\opt\cni\bin`, `C:\etc\cni\net.d`,
		`C:\etc\containerd\certs.d`} {
		if err := p.MkdirAll(onC("drive_c", dir)); err != nil {
			return err
		}
	}
	config := onC("drive_c", runtimeFolder+`\config.toml`)
	if _, err := p.ReadFile(config); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := runtimeConfig
	if sandboxImage != "" {
		text += fmt.Sprintf(sandboxConfig, sandboxImage)
	}
	return p.WriteFile(config, []byte(text), 0o644)
}

// logTail is how many bytes of containerd's log an error shows: a host that was not finished is removed with its logs.
const logTail = 2000

// AwaitRuntime returns when the runtime of a host that has just been started answers on its named pipe. It returns nil
// at once for a host without one.
func (h Host) AwaitRuntime(ctx context.Context) error {
	if h.Runtime != ContainerdExe {
		return nil
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := askRuntime(ctx, h)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			log, _ := h.Prefix().ReadFile(onC("drive_c", runtimeLog)) // none says that it has not started
			log = log[max(0, len(log)-logTail):]
			return fmt.Errorf("%s of host %s does not answer: %w\nIts log ends with:\n%s", h.Runtime, h.Name, err, log)
		case <-tick.C:
		}
	}
}

// askRuntime returns nil if containerd.exe answers with its version.
func askRuntime(ctx context.Context, h Host) error {
	client, err := runtimeClient(h)
	if err != nil {
		return err
	}
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, slow.Limit(5*time.Second))
	defer cancel()
	_, err = client.Version(limited)
	return err
}

// output runs a program of the host to its end and returns what it printed.
func (h Host) output(ctx context.Context, name string, args ...string) (string, error) {
	cmd, err := h.Program(ctx, name, args...)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.WaitDelay = time.Second
	err = cmd.Run(ctx)
	return strings.TrimSpace(out.String()), err
}
