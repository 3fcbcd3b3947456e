package winhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	// TestImage is the image of the pods of tests (bundle/registry/images/testapp).
	TestImage = "porthole/testapp:1"

	registryAddress = "127.0.0.1:5000"
	pauseImage      = "docker.io/porthole/pause:1"
	sandboxImage    = "registry.k8s.io/pause:3.10.2" // containerd's default
	network         = `{"Name":"porthole","Type":"L2Bridge","Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.244.8.0/24",` +
		`"Routes":[{"NextHop":"10.244.8.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`
	// host-local's own folder, /var/lib/cni, would be this machine's under Wine.
	winBridge = `{"cniVersion":"1.0.0","name":"porthole","type":"win-bridge","apiVersion":2,"capabilities":{"portMappings":true,"dns":true},` +
		`"ipam":{"type":"host-local","dataDir":"C:\\\\var\\\\lib\\\\cni","ranges":[[{"subnet":"10.244.8.0/24","rangeStart":"10.244.8.3"}]]}}`
)

// ServeImages serves our images in the host's network namespace, tells containerd.exe so, and has it pull those that
// pods need.
func (h *Host) ServeImages(ctx context.Context) error {
	images := filepath.Join(h.Dir, "images")
	if out, err := exec.CommandContext(ctx, h.bundled("registry"), "build", "--out", images).
		CombinedOutput(); err != nil {
		return fmt.Errorf("making images: %w\n%s", err, out)
	}
	if _, err := h.start("registry", h.Netns(),
		exec.Command(h.bundled("registry"), "serve", "--listen", registryAddress, "--dir", images)); err != nil {
		return err
	}
	hosts := "server = \"http://" + registryAddress + "\"\n\n[host.\"http://" + registryAddress +
		"\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
	if err := h.write("etc/containerd/certs.d/_default/hosts.toml", hosts); err != nil {
		return err
	}

	for _, image := range []string{TestImage, pauseImage} {
		err := wait.For(ctx, time.Minute, "image "+image, func(ctx context.Context) error {
			_, err := h.Images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image}})
			return err
		})
		if err != nil {
			return err
		}
	}

	// containerd looks for the image of sandboxes by its name, as on a node without a way to registry.k8s.io.
	_, err := h.Do(ctx, "run", h.Name, "--", `C:\Program Files\containerd\ctr.exe`, "--namespace", "k8s.io", "images",
		"tag", pauseImage, sandboxImage)
	return err
}

// JoinNetwork makes the HNS network of the pods, and installs upstream's CNI plugins, which containerd.exe runs itself.
func (h *Host) JoinNetwork(ctx context.Context) error {
	for _, name := range []string{"win-bridge.exe", "host-local.exe"} {
		data, err := os.ReadFile(filepath.Join(h.bundled("cni-windows"), name))
		if err != nil {
			return fmt.Errorf("%w (run `make bundle-tests`)", err)
		}
		if err := testkit.WriteGuest(h.DriveC(), "opt/cni/bin/"+name, data, 0o755); err != nil {
			return err
		}
	}
	program, err := h.buildProgram(ctx, "test/runtime/testdata/hcnnetwork")
	if err != nil {
		return err
	}
	if _, err := h.Do(ctx, "run", h.Name, "--", program, network); err != nil {
		return err
	}
	if err := h.write("etc/cni/net.d/10-porthole.conf", winBridge); err != nil {
		return err
	}

	return wait.For(ctx, 30*time.Second, "the network of containerd.exe", func(ctx context.Context) error {
		r, err := h.Runtime.Status(ctx, &cri.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range r.Status.Conditions {
			if c.Type == "NetworkReady" && c.Status {
				return nil
			}
		}
		return errors.New("it is not ready")
	})
}
