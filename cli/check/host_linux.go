package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/host"
)

// hostDir is --dir: the state folder of the emulated host.
var hostDir string

func hostFlags(f *pflag.FlagSet, o *options) {
	f.StringVar(&o.host, "host", "",
		"ask an emulated Windows host of this machine, which \"porthole host create\" or \"porthole up\" made")
	f.StringVar(&hostDir, "dir", layout.DefaultDir, "state folder of the emulated host")
}

// onHost runs the same command on an emulated host, and asks about the mends of the Wine that it runs with.
func onHost(ctx context.Context, o options, out, errs io.Writer) error {
	if err := o.check(); err != nil {
		fmt.Fprintln(errs, "porthole:", err)
		return incomplete
	}
	l, err := layout.New(hostDir)
	if err != nil {
		return err
	}
	store := host.Store{Dir: l.Dir, Bin: l.Bin}
	h, err := store.Get(o.host)
	if err != nil {
		return err
	}
	if len(o.probes) == 0 {
		o.probes = append(slices.Clone(check.Probes), mendsProbe)
	}

	res := result{Findings: []check.Finding{}, Reports: []check.Report{}}
	var code error
	ofHost := slices.DeleteFunc(slices.Clone(o.probes), func(p string) bool { return p == mendsProbe })
	if len(ofHost) > 0 {
		if res, code, err = resultOf(h, l, ofHost, o); err != nil {
			return err
		}
	}
	if slices.Contains(o.probes, mendsProbe) {
		version, list, err := store.Mends(ctx, h.Build)
		if err != nil {
			return err
		}
		res.Mends = &check.Mends{Wine: version}
		for _, m := range list {
			of := check.Mend{Name: m.Name, What: m.What, Outcome: string(m.Outcome), Why: m.Why}
			res.Mends.List = append(res.Mends.List, of)
		}
	}
	if err := write(res, o, out); err != nil {
		return err
	}
	if code == nil && res.Mends != nil && !res.Mends.Good() {
		code = differs
	}
	return code
}

// resultOf runs probes on a host. The command there has printed all errors; code is its exit code.
func resultOf(h host.Host, l layout.Layout, probes []string, o options) (res result, code, err error) {
	out, err := os.CreateTemp("", "porthole-check-")
	if err != nil {
		return res, nil, err
	}
	defer out.Close()
	if err := os.Remove(out.Name()); err != nil { // it has no name any more, and is gone when it is closed
		return res, nil, err
	}
	o.probes, o.output = probes, "json"
	exe := filepath.Join(l.Bin, "windows", "porthole.exe")
	ended, err := host.Run(h, host.RunOptions{Out: out}, exe, append([]string{"check"}, o.arguments()...)...)
	if err != nil {
		return res, nil, err
	}
	if ended != 0 {
		code = program.ExitCode(ended)
	}

	text, err := io.ReadAll(io.NewSectionReader(out, 0, 1<<30))
	if err != nil {
		return res, nil, err
	}
	if err := json.Unmarshal(text, &res); err != nil && ended == 0 {
		return res, nil, fmt.Errorf("host %s says %q: %w", h.Name, text, err)
	} else if err != nil {
		return res, code, code // it has said why, and nothing else
	}
	return res, code, nil
}

// arguments are the flags of o for the command on the host.
func (o options) arguments() []string {
	args := []string{"--probe=" + strings.Join(o.probes, ","), "-o=" + o.output,
		"--runtime-endpoint=" + o.Runtime.Endpoint, "--image=" + o.Runtime.Image}
	for name, set := range map[string]bool{"--allow-changes": o.Changes, "--leave": o.Leave,
		"--restart-hns": o.RestartHNS, "--all": o.all} {
		if set {
			args = append(args, name)
		}
	}
	return args
}
