package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/platform"
)

// RouterName is what the cluster's router calls itself in Facts.
const RouterName = "router"

// Facts runs `porthole facts` on every node and on the router of a local cluster, all at once, and returns the
// JSON that each printed, by the machine's name. A machine without a network namespace is left out, as its host does
// not run. If others fail, Facts returns what the rest printed, together with an error that names each failed
// machine. Only ctx limits the time.
func Facts(ctx context.Context, l layout.Layout) (map[string][]byte, error) {
	c, err := config.Read(l)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no cluster in %s: run `porthole up` first, or give --facts and --kubeconfig", l.Dir)
	}
	if err != nil {
		return nil, err
	}

	var mu sync.Mutex
	var errs []error
	out := map[string][]byte{}
	var tasks sync.WaitGroup
	run := func(name, netns string, command func() (program, error)) {
		if !platform.NetnsExists(netns) {
			return
		}
		tasks.Go(func() {
			data, err := outputOf(command)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("asking %s for its facts: %w", name, err))
				return
			}
			out[name] = data
		})
	}
	router := c.Lab().RouterNetns()
	run(RouterName, router, func() (program, error) {
		ask := exec.CommandContext(ctx, l.Porthole(), "facts", "--name="+RouterName, "--routes=", "--cni-conf-dir=")
		return linuxProgram(router, ask), nil
	})
	for _, n := range c.Nodes() {
		run(n.Name, c.Lab().Netns(n.Name), func() (program, error) { return factsCommand(ctx, l, c, n) })
	}
	tasks.Wait()
	return out, errors.Join(errs...)
}

// program is a command and what runs it to its end where it belongs.
type program struct {
	*exec.Cmd
	run func() error
}

func linuxProgram(netns string, cmd *exec.Cmd) program {
	return program{cmd, func() error {
		if err := platform.StartInNetns(platform.NetnsPath(netns), cmd); err != nil {
			return err
		}
		return cmd.Wait()
	}}
}

// factsCommand returns the command that prints the facts of a node, as its own system runs it.
func factsCommand(ctx context.Context, l layout.Layout, c config.Cluster, n config.Node) (program, error) {
	args := []string{"facts", "--name=" + n.Name}
	if more := network.Of(c).Facts; more != nil {
		args = append(args, more(l, n)...)
	}
	if n.OS() != "windows" {
		args = append(args, "--cni-conf-dir="+l.NodeFile(n.Name, "cni", "net.d"))
		return linuxProgram(c.Lab().Netns(n.Name), exec.CommandContext(ctx, l.Porthole(), args...)), nil
	}
	h, err := host.Store{Dir: l.Dir, Bin: l.Bin}.Get(n.Name)
	if err != nil {
		return program{}, err
	}
	cmd, err := h.Program(ctx, l.WindowsExe("porthole"), args...)
	if err != nil {
		return program{}, err
	}
	return program{cmd.Cmd, func() error { return cmd.Run(ctx) }}, nil
}

// outputOf runs a command and returns what it printed; an error has what it wrote to standard error.
func outputOf(command func() (program, error)) ([]byte, error) {
	cmd, err := command()
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Second
	if err := cmd.run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}
