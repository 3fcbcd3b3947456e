package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/test/images"
)

// storageFiles are manifests with words in capitals in place of what the run decides.
//
//go:embed storage
var storageFiles embed.FS

// storageImage is one program of the suite storage-csi as an image.
func storageImage(program string) images.Image {
	return images.Image{Repository: "sig-storage/" + program, Tags: []string{"1"},
		Linux: &images.Variant{Layers: []string{program}, Entrypoint: []string{"/" + program}, Dir: "/"}}
}

// storageParts are the layers of these images.
func storageParts(dir string) map[string]func(*images.Layer) error {
	out := map[string]func(*images.Layer) error{}
	for _, program := range []string{"driver", "csi-provisioner", "csi-attacher", "csi-resizer"} {
		out[program] = func(l *images.Layer) error { return l.File(program, filepath.Join(dir, "csi", program), 0o755) }
	}
	return out
}

// driverFile is where the suite reads what the driver can do.
func (c *suiteCluster) driverFile() string { return filepath.Join(c.o.dir, "storage-driver.yaml") }

// deployStorage starts the driver on every Linux node, and its controller, and waits until the nodes know it. All use
// one folder of this machine, which plays a disk that every node reaches.
func (c *suiteCluster) deployStorage(ctx context.Context) error {
	text, err := storageFile("driver.yaml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.driverFile(), []byte(text), 0o644); err != nil {
		return err
	}
	var all []string
	// add appends a manifest; all are applied together.
	add := func(file string, replace ...string) error {
		text, err := storageFile(file, append(replace, "VOLUMES", filepath.Join(c.o.dir, "volumes"))...)
		all = append(all, text)
		return err
	}

	if err := add("controller.yaml"); err != nil {
		return err
	}
	// The suites of drivers make classes themselves.
	if c.o.suite != storageCSI {
		if err := add("class.yaml"); err != nil {
			return err
		}
	}
	// Every Linux node gets a pod of the driver that knows the node's folder of the kubelet.
	config, err := layout.New(c.o.dir)
	if err != nil {
		return err
	}
	linux := nodesOf(c.o)
	for _, node := range linux {
		if err := add("node.yaml", "NODE", node, "KUBELET", config.NodeFile(node, "kubelet")); err != nil {
			return err
		}
	}
	if err := c.kubectl(ctx, strings.Join(all, "\n---\n"), "apply", "-f", "-"); err != nil {
		return err
	}

	return c.awaitDriver(ctx, "lab.storage.porthole.dev", linux...)
}

// awaitDriver waits until the pods of a storage driver run, and nodes know it.
func (c *suiteCluster) awaitDriver(ctx context.Context, driver string, nodes ...string) error {
	if err := c.kubectl(ctx, "", "-n", "kube-system", "wait", "--for=condition=Ready", "pod", "-l", "app=storage",
		"--timeout=300s"); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := c.kubectl(ctx, "", "wait", "--for=jsonpath={.spec.drivers[0].name}="+driver, "csinode/"+node,
			"--timeout=120s"); err != nil {
			return err
		}
	}
	return nil
}

// storageFile returns a file of storage/ with words in it replaced.
// Words are given in pairs, old and new.
func storageFile(name string, replace ...string) (string, error) {
	text, err := storageFiles.ReadFile("storage/" + name)
	return strings.NewReplacer(replace...).Replace(string(text)), err
}

// nodesOf are the names of the Linux nodes of the cluster that run makes.
func nodesOf(o options) []string {
	n := suites[o.suite].linuxNodes
	if n == 0 {
		n = 2
	}
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("lin%02d", i+1))
	}
	return out
}

// kubectl runs the suite's kubectl against the cluster, with its output shown.
func (c *suiteCluster) kubectl(ctx context.Context, input string, args ...string) error {
	cmd := exec.CommandContext(ctx, c.program("conformance", "kubectl"),
		append([]string{"--kubeconfig", filepath.Join(c.o.dir, "kubeconfig")}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	return show(cmd)
}
