package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
)

// What upstream's tests for Windows nodes reach on the Internet (test/e2e/windows/hybrid_network.go): a name server by
// its address, over TCP, and a web server by its name.
var (
	outsideAddr = netip.MustParseAddr("8.8.8.8")
	outsideName = "www.google.com"
)

// outside plays these on the router, which is the outside world of a local cluster, until close is called. The
// cluster's DNS learns the name.
func (c *suiteCluster) outside(ctx context.Context) (stop func(), err error) {
	var listeners []net.Listener
	stop = func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}
	// The address is added to the loopback of the router, which routes to it for all hosts.
	err = platform.InNetns(platform.NetnsPath(lab.Default.RouterNetns()), func() error {
		if err := platform.SetAddress("lo", netip.PrefixFrom(outsideAddr, 32)); err != nil {
			return err
		}
		for _, port := range []uint16{53, 80} {
			l, err := net.Listen("tcp4", netip.AddrPortFrom(outsideAddr, port).String())
			if err != nil {
				return err
			}
			listeners = append(listeners, l)
		}
		return nil
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("playing the outside world: %w", err)
	}

	// The name server accepts and closes: tests only connect to it.
	go func() { // ends with its listener
		for {
			conn, err := listeners[0].Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	go func() {
		_ = http.Serve(listeners[1],
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "outside\n") }))
	}()
	return stop, c.teachName(ctx)
}

// teachName adds the name to the Corefile, and waits for a DNS that has read it.
// Reading and replacing go by kubectl, as an administrator would do it.
func (c *suiteCluster) teachName(ctx context.Context) error {
	kubectl := func(args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, c.program("conformance", "kubectl"),
			append([]string{"--kubeconfig", filepath.Join(c.o.dir, "kubeconfig"), "-n", "kube-system"}, args...)...)
	}
	corefile, err := kubectl("get", "configmap", "coredns", "-o", "jsonpath={.data.Corefile}").Output()
	if err != nil {
		return fmt.Errorf("reading the configuration of the cluster's DNS: %w", err)
	}
	hosts := fmt.Sprintf("    hosts {\n        %s %s\n        fallthrough\n    }\n    ready\n", outsideAddr,
		outsideName)
	if strings.Contains(string(corefile), outsideName) {
		return nil
	}
	// The plugin hosts answers before the others of the same block, and passes on what it does not
	// know.
	changed := strings.Replace(string(corefile), "    ready\n", hosts, 1)
	if changed == string(corefile) {
		return errors.New(
			"the configuration of the cluster's DNS has no line \"ready\" to put the outside's name before")
	}

	file := filepath.Join(c.o.logs, "Corefile")
	if err := errors.Join(os.MkdirAll(c.o.logs, 0o755), os.WriteFile(file, []byte(changed), 0o644)); err != nil {
		return err
	}
	doc, err := kubectl("create", "configmap", "coredns", "--from-file", file, "--dry-run=client", "-o", "yaml").
		Output()
	if err != nil {
		return fmt.Errorf("writing the configuration of the cluster's DNS: %w", err)
	}
	// DNS pods read the file anew when they are made again.
	replace := kubectl("replace", "-f", "-")
	replace.Stdin = strings.NewReader(string(doc))
	return errors.Join(show(replace), show(kubectl("rollout", "restart", "deployment/coredns")),
		show(kubectl("rollout", "status", "deployment/coredns", "--timeout=60s")))
}
