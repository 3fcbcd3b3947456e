package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/manifests"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/internal/slow"
)

// archive is the folder of C: in which the archive for Windows is unpacked on nodes that `porthole.exe join` sets up.
const archive = `C:\porthole`

// unpackArchive puts on a node's C: what the archive for Windows has, and shows the logs of the services beside those
// of the node's other programs.
func unpackArchive(l layout.Layout, c config.Cluster, n config.Node) error {
	var errs []error
	file := func(name string) string { return l.NodeFile(n.Name, "prefix", "drive_c", "porthole", name) }
	for _, name := range append([]string{"porthole", "kube-proxy", "win-bridge"}, network.Of(c).Plugins...) {
		errs = append(errs, install.Program(l.WindowsExe(name), file(name+".exe")))
	}
	if more := network.Of(c).Files; more != nil {
		for name, text := range more(c, n) {
			errs = append(errs, install.File(file(name), text, 0o600))
		}
	}
	h := c.Host(l, n)
	for _, name := range []string{"routes", "kube-proxy", "kubelet"} {
		errs = append(errs, h.ShowLog(name, `C:\ProgramData\Porthole\logs\`+name+".log"))
	}
	return errors.Join(append(errs, h.ShowLog("containerd", `C:\var\log\containerd.log`))...)
}

// joinLimit is how long a node may take to join, on a usual machine.
const joinLimit = 3 * time.Minute

// JoinWindows makes each Windows node a node of the cluster by `porthole.exe join` on it, as its administrator would. A
// node that has joined is left as it is. It runs when the control plane is ready.
func JoinWindows(ctx context.Context, l layout.Layout, c config.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(joinLimit))
	defer cancel()
	nodes := slices.DeleteFunc(c.Nodes(), func(n config.Node) bool { return !n.Windows })
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			if err := joinNode(ctx, l, c, n); err != nil {
				errs[i] = fmt.Errorf("joining %s: %w", n.Name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func joinNode(ctx context.Context, l layout.Layout, c config.Cluster, n config.Node) error {
	h := c.Host(l, n)
	if err := h.RegisterRuntime(ctx); err != nil {
		return err
	}
	token, command, err := manifests.CreateToken(ctx, l, slow.Limit(joinLimit))
	if err != nil {
		return err
	}
	args := strings.Fields(command)[1:]
	i := slices.Index(args, "--token")
	// what stands in a command line, every user of the machine can read
	args = slices.Replace(args, i, i+2, "--token-file", "-")
	args = append(args, "--node-name", n.Name, "--node-ip", n.Address.String(), "--wait", "registered")
	args = append(args, joinNetwork(l, c, n)...)

	cmd, err := h.Program(ctx, archive+`\porthole.exe`, args...)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdin = strings.NewReader(token.String() + "\n")
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.WaitDelay = time.Second
	if err := cmd.Run(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// joinNetwork returns the flags of join for the network of the cluster.
func joinNetwork(l layout.Layout, c config.Cluster, n config.Node) []string {
	args := []string{"--network", c.Network}
	more := network.Of(c).Routes
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
