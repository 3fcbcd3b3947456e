// Package hostscm holds the hidden command that an emulated Windows host runs as its service manager.
package hostscm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
)

// Command is `host-scm`. It must be started in the network namespace of the host.
func Command() *cobra.Command {
	var dir, listen string
	var delayed time.Duration
	c := &cobra.Command{
		Use: "host-scm", Short: "Be the service manager of an emulated Windows host", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			daemon.Lean()
			if dir == "" {
				return errors.New("--host-dir is needed")
			}
			tools, err := wine.Find()
			if err != nil {
				return err
			}
			// Host.Prefix of emulator/host, which would bring containerd's client into a small program
			prefix := wine.Prefix{Dir: filepath.Join(dir, "prefix")}
			m, err := scm.New(scm.Options{Dir: filepath.Join(dir, "scm"), Delayed: delayed,
				Launcher: scm.Windows{Tools: tools, Prefix: prefix},
				Restart:  func() error { return restart(dir) }})
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("serving the service manager: %w", err)
			}
			go m.Boot()
			return m.Serve(c.Context(), l)
		},
	}

	f := c.Flags()
	f.StringVar(&dir, "host-dir", "", "folder of the host (required)")
	f.StringVar(&listen, "listen", wire.SCMAddress, "TCP address for the host's DLLs")
	f.DurationVar(&delayed, "delayed-after", 0,
		"time between the start of automatic and of delayed services; 0: 2 min, as on Windows")
	return c
}

// restart begins `porthole host reboot` for the host of a folder, and returns. That command ends all that runs in the
// host's network namespace, so it runs in the one of the supervisor that started this process.
func restart(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	state := filepath.Dir(filepath.Dir(dir))
	name := filepath.Base(dir) // Store.Folder of emulator/host
	cmd := exec.Command(filepath.Join(filepath.Dir(self), "porthole"), "host", "reboot", name, "--dir", state)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the supervisor ends this process with its group
	if err := platform.StartInNetns(fmt.Sprintf("/proc/%d/ns/net", os.Getppid()), cmd); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it logs what goes wrong
	return nil
}
