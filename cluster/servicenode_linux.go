package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/slow"
)

// archive is the folder of C: in which the archive for Windows is unpacked on nodes that `porthole.exe join` sets up.
const archive = `C:\porthole`

// unpackArchive puts on a node's C: what the archive for Windows has, and shows the logs of the services beside those
// of the node's other programs.
func unpackArchive(l Layout, c Config, n Node) error {
	var errs []error
	file := func(name string) string { return l.NodeFile(n.Name, "prefix", "drive_c", "porthole", name) }
	for _, name := range append([]string{"porthole", "kube-proxy", "win-bridge"}, c.network().plugins...) {
		errs = append(errs, installProgram(l.WindowsExe(name), file(name+".exe")))
	}
	if more := c.network().files; more != nil {
		for name, text := range more(c, n) {
			errs = append(errs, writeFile(file(name), text, 0o600))
		}
	}
	h := hostOf(l, c, n)
	for _, name := range []string{"routes", "kube-proxy", "kubelet"} {
		errs = append(errs, h.ShowLog(name, `C:\ProgramData\Porthole\logs\`+name+".log"))
	}
	return errors.Join(append(errs, h.ShowLog("containerd", `C:\var\log\containerd.log`))...)
}

// joinLimit is how long a node may take to join, on a usual machine.
const joinLimit = 3 * time.Minute

// joinNodes makes each Windows node a node of the cluster by `porthole.exe join` on it, as its administrator would. A
// node that has joined is left as it is. It runs when the control plane is ready.
func joinNodes(ctx context.Context, o UpOptions, p *progress) error {
	if o.Config.Supervisor != SuperviseServices {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(joinLimit))
	defer cancel()
	nodes := slices.DeleteFunc(o.Config.Nodes(), func(n Node) bool { return !n.Windows })
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			if err := joinNode(ctx, o, n); err != nil {
				errs[i] = fmt.Errorf("joining %s: %w", n.Name, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.done("porthole join on the Windows nodes")
	return nil
}

func joinNode(ctx context.Context, o UpOptions, n Node) error {
	h := hostOf(o.Layout, o.Config, n)
	if err := h.RegisterRuntime(ctx); err != nil {
		return err
	}
	token, command, err := CreateToken(ctx, o.Layout, slow.Limit(joinLimit))
	if err != nil {
		return err
	}
	args := strings.Fields(command)[1:]
	i := slices.Index(args, "--token")
	// what stands in a command line, every user of the machine can read
	args = slices.Replace(args, i, i+2, "--token-file", "-")
	args = append(args, "--node-name", n.Name, "--node-ip", n.Address.String(), "--wait", "registered")
	args = append(args, joinNetwork(o.Layout, o.Config, n)...)

	cmd, err := h.Program(ctx, archive+`\porthole.exe`, args...)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(token.String()+"\n"), &out, &out, time.Second
	if err := cmd.Run(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// joinNetwork returns the flags of join for the network of the cluster.
func joinNetwork(l Layout, c Config, n Node) []string {
	args := []string{"--network", c.Network}
	more := c.network().routes
	if more == nil {
		return args
	}
	for _, flag := range more(l, c, n, archive) {
		if !strings.HasPrefix(flag, "--bgp-config=") {
			flag = "--routes-extra-args=" + flag
		}
		args = append(args, flag)
	}
	return args
}

// servicesOf returns the services of a node whose programs are services, as its service manager tells; none of another
// node, or if the manager does not answer: its own process is shown too.
func servicesOf(l Layout, c Config, node string) (list []supervise.State) {
	for _, n := range c.Nodes() {
		h := hostOf(l, c, n)
		if n.Name != node || !h.ServiceManager {
			continue
		}
		services, _ := h.Services() // see above
		for _, s := range services {
			list = append(list, supervise.State{Name: node + "/" + s.Name, Node: node, Phase: s.Status.State.String(),
				Restarts: s.Failures})
		}
	}
	return list
}
