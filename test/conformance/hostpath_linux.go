package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/internal/testkit/storagedriver"
	"porthole.dev/porthole/internal/testkit/wait"
)

// hostPathName is how csi-driver-host-path calls itself.
const hostPathName = "hostpath.csi.k8s.io"

// startHostPath runs csi-driver-host-path, as it is, on the first node, registers it with the node's kubelet, and
// deploys its controller. It is a process of the node, not of a pod: it calls programs such as mount and losetup,
// which the node has. stop ends it.
func (c *suiteCluster) startHostPath(ctx context.Context) (stop func(), err error) {
	l, err := layout.New(c.o.dir)
	if err != nil {
		return nil, err
	}
	// The first node is the only one with the driver, so that its volumes are on that node.
	node := nodesOf(c.o)[0]
	kubelet := l.NodeFile(node, "kubelet")
	socket := filepath.Join(kubelet, "plugins", "csi-hostpath", "csi.sock")
	data := filepath.Join(c.o.dir, "hostpath")
	if err := errors.Join(os.MkdirAll(filepath.Dir(socket), 0o750), os.MkdirAll(data, 0o755),
		os.MkdirAll(c.o.logs, 0o755)); err != nil {
		return nil, err
	}

	log, err := os.Create(filepath.Join(c.o.logs, "csi-driver-host-path.txt"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, c.o.driver, "--v=5", "--endpoint=unix://"+socket, "--nodeid="+node,
		"--statedir="+data)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("starting csi-driver-host-path, which -driver names: %w", err), log.Close())
	}
	// unregister is replaced when there is something to undo; stop can be called at any point from
	// here on.
	unregister := func() {}
	stop = func() {
		unregister()
		cancel()
		_ = cmd.Wait() // it was killed
		log.Close()
	}

	// The socket is there before the driver is registered: the kubelet connects to it at once.
	err = wait.For(ctx, 10*time.Second, "csi-driver-host-path to listen", func(context.Context) error {
		_, err := os.Stat(socket)
		return err
	})
	if err == nil {
		unregister, err = storagedriver.Register(hostPathName, socket,
			filepath.Join(kubelet, "plugins_registry", hostPathName+"-reg.sock"))
	}
	if err == nil {
		err = c.deployHostPath(ctx, node, kubelet)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// deployHostPath tells the suite what the driver can do, deploys its controller, and waits until its node knows it.
func (c *suiteCluster) deployHostPath(ctx context.Context, node, kubelet string) error {
	text, err := storageFile("hostpath-driver.yaml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.driverFile(), []byte(text), 0o644); err != nil {
		return err
	}
	if text, err = storageFile("hostpath.yaml", "NODE", node, "KUBELET", kubelet); err != nil {
		return err
	}
	if err := c.kubectl(ctx, text, "apply", "-f", "-"); err != nil {
		return err
	}
	return c.awaitDriver(ctx, hostPathName, node)
}
