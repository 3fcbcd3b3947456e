// Package hosthcsd holds the hidden command that runs for an emulated Windows host: its Host Compute Service.
package hosthcsd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/hcsd/serve"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
)

// Command is `host-hcsd`.
func Command() *cobra.Command {
	var o serve.Options
	var build int
	c := &cobra.Command{
		Use: "host-hcsd", Short: "Be the Host Compute Service of an emulated Windows host", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			daemon.Lean()
			if o.HostDir == "" {
				return errors.New("--host-dir is needed")
			}
			if os.Getuid() != 0 {
				return errors.New("host-hcsd makes containers: run it as root")
			}
			var err error
			if o.HostDir, err = filepath.EvalSymlinks(o.HostDir); err != nil { // links below it lead to its full path
				return err
			}
			if o.Cgroup == "" {
				o.Cgroup = lab.Default.Cgroup(filepath.Base(o.HostDir))
			}
			if o.Template == "" {
				o.Template = wine.TemplateDir(filepath.Dir(filepath.Dir(o.HostDir)), build)
			}
			if o.Tools, err = wine.Find(); err != nil {
				return err
			}
			if o.Runc, err = exec.LookPath("runc"); err != nil {
				return fmt.Errorf("containers need runc (apt-get install runc): %w", err)
			}
			o.CPUs = runtime.NumCPU()
			return serve.Run(c.Context(), o)
		},
	}

	f := c.Flags()
	f.StringVar(&o.HostDir, "host-dir", "", "folder of the host (required)")
	f.IntVar(&build, "build", 20348, "Windows build of the host")
	f.StringVar(&o.Template, "template", "",
		"Wine prefix that containers start from (default: that of the build, beside the hosts)")
	f.StringVar(&o.Cgroup, "cgroup", "", "cgroup of the host (default: /porthole/ and the name of its folder)")
	f.Uint64Var(&o.Memory, "memory", 0, "bytes of memory that the host's programs see; 0: those of the machine")
	f.StringVar(&o.Listen, "listen", wire.HCSAddress, "TCP address for vmcompute.dll")
	return c
}
