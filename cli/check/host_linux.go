package check

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/emulator/host"
)

// hostDir is --dir: the state folder of the emulated host.
var hostDir string

func hostFlags(f *pflag.FlagSet, o *options) {
	f.StringVar(&o.host, "host", "", "ask an emulated Windows host of this machine, which \"porthole host create\" or \"porthole up\" made")
	f.StringVar(&hostDir, "dir", cluster.DefaultDir, "state folder of the emulated host")
}

// onHost runs the same command on an emulated host, with the same flags.
func onHost(o options) error {
	if err := o.check(); err != nil {
		return err
	}
	layout, err := cluster.NewLayout(hostDir)
	if err != nil {
		return err
	}
	h, err := host.Store{Dir: layout.Dir, Bin: layout.Bin}.Get(o.host)
	if err != nil {
		return err
	}
	code, err := host.Run(h, host.RunOptions{}, filepath.Join(layout.Bin, "windows", "porthole.exe"), append([]string{"check"}, o.arguments()...)...)
	if err == nil && code != 0 {
		err = program.ExitCode(code)
	}
	return err
}

// arguments are the flags of o for the command on the host.
func (o options) arguments() []string {
	args := []string{"--probe=" + strings.Join(o.probes, ","), "-o=" + o.output, "--runtime-endpoint=" + o.Runtime.Endpoint, "--image=" + o.Runtime.Image}
	for name, set := range map[string]bool{"--allow-changes": o.Changes, "--leave": o.Leave, "--restart-hns": o.RestartHNS, "--all": o.all} {
		if set {
			args = append(args, name)
		}
	}
	return args
}
