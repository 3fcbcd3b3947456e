package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"porthole.dev/porthole/emulator/scm"
)

const (
	// runtimeService is the name that containerd.exe gives its service.
	runtimeService = "containerd"
	// runtimeLog is where the service logs to: what a service prints is lost.
	runtimeLog = `C:\var\log\containerd.log`
)

// RegisterRuntime makes containerd.exe a Windows service of a managed host that has just been started, and starts it,
// as an administrator does: containerd.exe registers itself. A host without that runtime, or with that service, is
// left alone: its service manager starts the service.
func (h Host) RegisterRuntime(ctx context.Context) error {
	if h.Runtime != ContainerdExe || !h.Managed() {
		return nil
	}
	services, err := h.awaitServices(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(services, func(s scm.Listed) bool { return s.Name == runtimeService }) {
		return nil
	}
	if err := h.boot(); err != nil {
		return err
	}

	for _, args := range [][]string{
		{runtimeFolder + `\containerd.exe`, "--register-service", "--log-file", runtimeLog},
		// By itself it is started again twice, after 15 s each, and not a third time.
		{"sc", "failure", runtimeService, "reset=", "0", "actions=", "restart/1000"},
		{"sc", "start", runtimeService},
	} {
		if out, err := h.output(ctx, args[0], args[1:]...); err != nil {
			return fmt.Errorf("making %s a service of host %s: %w: %s", h.Runtime, h.Name, err, out)
		}
	}
	return nil
}

// awaitServices lists the host's services once its service manager answers.
func (h Host) awaitServices(ctx context.Context) ([]scm.Listed, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		services, err := h.Services()
		if err == nil {
			return services, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// linkRuntimeLog shows the log of the service beside those of the host's processes.
func (h Host) linkRuntimeLog() error {
	return h.ShowLog("containerd", runtimeLog)
}

// ShowLog shows the log file of a Windows service beside the logs of the host's processes, as NAME.log.
func (h Host) ShowLog(name, windowsPath string) error {
	log := onC(h.Prefix().DriveC(), windowsPath)
	if err := errors.Join(h.Prefix().MkdirAll(filepath.Dir(onC("drive_c", windowsPath))),
		os.MkdirAll(filepath.Join(h.Dir, "logs"), 0o755)); err != nil {
		return err
	}
	err := os.Symlink(log, filepath.Join(h.Dir, "logs", name+".log"))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
