package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/kubernetes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Addresses inside a World. They are in no other namespace, so any number of Worlds can live side by side.
const (
	NodeIP   = "10.98.0.1"
	podRange = "10.97.0.0/16"
)

// Images of every World: our test program, and the pause program of sandboxes.
const (
	TestImage  = "testkit.local/testapp:1"
	pauseImage = "testkit.local/pause:1"
)

// Options of NewWorld.
type Options struct {
	// Bin is the folder of the built programs: bundle/ and, unless Porthole says otherwise, porthole. Required.
	Bin string
	// Porthole is the program whose kubelet runs; empty means Bin/porthole.
	Porthole string
	// Prefix begins the name of the World; a few letters. Required.
	Prefix string
	// APIServer are further flags of the API server.
	APIServer []string
	// SystemdCgroups has containerd make cgroups by systemd, which is the first process of the machine. Then pods are
	// below the top: CgroupRoot has none.
	SystemdCgroups bool
	// Nodes that a kubelet may register as. Required.
	Nodes []string
}

// World is a control plane and a containerd in a network namespace and a folder of their own, on which kubelets run.
// Everything it makes on the machine has its Name.
type World struct {
	home

	// Client has all rights.
	Client kubernetes.Interface
	// KubeletConfig holds fields of the next kubelet's configuration, in addition to those that every kubelet here has.
	KubeletConfig map[string]any
	// KubeletFlags are further flags of the next kubelet, of either kind.
	KubeletFlags []string
	// Runtime and Images are clients of containerd.
	Runtime cri.RuntimeServiceClient
	Images  cri.ImageServiceClient

	o     Options
	conn  *grpc.ClientConn
	proxy string // socket of the proxy before containerd, "" without one
}

// home is where a World lives: a network namespace, a folder, cgroups, and the processes inside.
type home struct {
	// Name is the name of the network namespace and of the cgroup below which pods live.
	Name string
	// Dir holds all state and logs.
	Dir string

	bin   string // of the built programs
	procs []*Process
}

// NewWorld starts a World and returns when the control plane and containerd answer and the images are there. Close
// it; a World that could not be started has removed itself.
func NewWorld(ctx context.Context, o Options) (*World, error) {
	if o.Porthole == "" {
		o.Porthole = filepath.Join(o.Bin, "porthole")
	}
	for _, program := range []string{o.Porthole, filepath.Join(o.Bin, "bundle", "kube"),
		filepath.Join(o.Bin, "bundle", "containerd")} {
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("a program is missing (run `make build`): %w", err)
		}
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("pods need root")
	}
	dir, err := os.MkdirTemp("", o.Prefix+"-")
	if err != nil {
		return nil, err
	}
	w := &World{home: home{Name: fmt.Sprintf("%s-%d", o.Prefix, os.Getpid()), Dir: dir, bin: o.Bin}, o: o}
	if err := w.start(ctx); err != nil {
		logs := w.Logs(4000)
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, logs), w.Close())
	}
	return w, nil
}

// Netns is the path of the World's network namespace.
func (h *home) Netns() string { return platform.NetnsPath(h.Name) }

// Path is a file below Dir.
func (h *home) Path(parts ...string) string {
	return filepath.Join(append([]string{h.Dir}, parts...)...)
}

// CgroupRoot is the cgroup below which kubelets put pods.
func (h *home) CgroupRoot() string { return "/" + h.Name }

func (h *home) bundled(name string) string { return filepath.Join(h.bin, "bundle", name) }

// start starts the world's programs and imports its images. The caller ends what runs if it fails.
func (w *World) start(ctx context.Context) error {
	if err := w.makeNetwork(); err != nil {
		return err
	}
	if err := errors.Join(w.writeControlPlane(), w.writeContainerd(), makeCgroups(w.Name)); err != nil {
		return err
	}
	if err := w.StartControlPlane(); err != nil {
		return err
	}
	if _, err := w.Start("containerd", w.bundled("containerd"), "--config",
		w.Path("containerd", "config.toml")); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	images := filepath.Join(w.o.Bin, "bundle", "images", "linux")
	return errors.Join(
		Import(ctx, w.socket(), pauseImage, map[string]string{"/pause": filepath.Join(images, "pause")}, "/pause"),
		w.ImportTestImage(ctx, TestImage))
}

// ImportOther imports our test program into containerd as the image ref, which shares no layer with other images.
func (w *World) ImportOther(ctx context.Context, ref string) error {
	program := filepath.Join(w.o.Bin, "bundle", "images", "linux", "testapp")
	path := "/" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, ref)
	return Import(ctx, w.socket(), ref, map[string]string{path: program}, path)
}

// ImportTestImage imports our test program into containerd as the image ref.
func (w *World) ImportTestImage(ctx context.Context, ref string) error {
	program := filepath.Join(w.o.Bin, "bundle", "images", "linux", "testapp")
	return Import(ctx, w.socket(), ref, map[string]string{"/testapp": program}, "/testapp")
}

// StartControlPlane starts etcd, the API server and the controllers, or starts them again after a test has ended them.
// It does not wait until they answer.
func (w *World) StartControlPlane() error {
	_, err := w.Start("controlplane", w.bundled("kube"), "controlplane", "--config",
		w.Path("controlplane", "config.json"))
	return err
}

// makeNetwork makes the namespace, with a bridge that only carries the node's address.
func (h *home) makeNetwork() error {
	if err := platform.CreateNetns(h.Name); err != nil {
		return err
	}
	return platform.InNetns(h.Netns(), func() error {
		if err := platform.CreateBridge("node0"); err != nil {
			return err
		}
		return errors.Join(platform.LinkUp("lo"), platform.SetAddress("node0", netip.MustParsePrefix(NodeIP+"/24")),
			platform.LinkUp("node0"))
	})
}

// connect waits until containerd and the API server answer, and the service account of the namespace default is there.
func (w *World) connect(ctx context.Context) error {
	var err error
	if w.Client, err = w.controlPlane().Client(w.Netns(), tokenOf("admin")); err != nil {
		return err
	}
	if w.conn, err = grpc.NewClient("unix://"+w.socket(),
		grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return err
	}
	w.Runtime, w.Images = cri.NewRuntimeServiceClient(w.conn), cri.NewImageServiceClient(w.conn)
	if err := wait.For(ctx, 30*time.Second, "containerd", w.runtimeReady); err != nil {
		return err
	}
	return wait.For(ctx, 3*time.Minute, "the control plane", func(ctx context.Context) error {
		return w.accountReady(ctx, "default")
	})
}

func (w *World) runtimeReady(ctx context.Context) error {
	r, err := w.Runtime.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return err
	}
	for _, c := range r.GetStatus().GetConditions() {
		if !c.Status && (c.Type == cri.RuntimeReady || c.Type == cri.NetworkReady) {
			return errors.New(c.Message)
		}
	}
	return nil
}
