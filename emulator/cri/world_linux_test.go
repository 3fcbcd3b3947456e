package cri_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/cri/cnishim"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestMain lets the test program be the CNI shim that containerd calls.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "host-cni" {
		stdin, err := io.ReadAll(os.Stdin)
		if err != nil {
			os.Exit(1)
		}
		env := map[string]string{}
		for _, name := range []string{"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"} {
			env[name] = os.Getenv(name)
		}
		if cnishim.Run(context.Background(), cnishim.Call{HostDir: os.Args[3], Env: env, Stdin: stdin, Stdout: os.Stdout}) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const testBuild = 20348

// world is one emulated host with a registry of our images.
type world struct {
	t       *testing.T
	ctx     context.Context
	dir     string // the host's folder
	space   *netspace.Space
	netns   string // its path
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	options cri.Options
	conn    *grpc.ClientConn // to the CRI server
	mirror  string           // URL of the registry
	stop    func()           // ends the CRI server
}

// newWorld starts everything that a host needs below its kubelet; the test's end takes it all away and looks for rests.
func newWorld(t *testing.T, realHNS bool) *world {
	t.Helper()
	if os.Getenv("PORTHOLE_LIGHT") != "long" {
		t.Skip("takes minutes, and no cluster has this runtime by itself: PORTHOLE_LIGHT=long, or `make test-light`")
	}
	if os.Getuid() != 0 {
		t.Skip("containers need root")
	}
	bundle, err := filepath.Abs("../../bin/bundle")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bundle, "containerd")); err != nil {
		t.Fatalf("%v (run `make bundle`)", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	base := t.TempDir()
	name := fmt.Sprintf("critest%d", os.Getpid())
	space := netspace.Named(t, "porthole-"+name)
	w := &world{t: t, ctx: ctx, dir: filepath.Join(base, "hosts", name), space: space, netns: space.Path}
	t.Cleanup(func() { must(t, cri.RemoveCgroups(name)) })
	makePrefix(w, base)
	startHNS(w, realHNS)

	registry := freeAddress(t)
	images := filepath.Join(base, "images")
	run(t, filepath.Join(bundle, "registry"), "build", "--out", images)
	// containerd sees it inside the namespace; the CRI server, which the test runs in its own process, outside.
	w.start(base, "", filepath.Join(bundle, "registry"), "serve", "--listen", registry, "--dir", images, "--netns", w.netns)
	w.start(base, "", filepath.Join(bundle, "registry"), "serve", "--listen", registry, "--dir", images)

	conf := containerdconf.Options{
		Dir: filepath.Join(w.dir, "containerd"), Registry: "http://" + registry, InternalLoopback: true,
		CNIConfDir: filepath.Join(w.dir, "cni", "net.d"), CNIBinDir: filepath.Join(w.dir, "cni", "bin"),
	}
	must(t, containerdconf.Write(conf))
	self, err := os.Executable()
	must(t, err)
	must(t, cnishim.Install(w.dir, self))
	t.Setenv("PATH", bundle+":"+os.Getenv("PATH"))
	w.start(base, w.netns, filepath.Join(bundle, "containerd"), "--config", conf.File())

	tools, err := wine.Find()
	must(t, err)
	w.options = cri.Options{
		Host: name, HostDir: w.dir, Build: testBuild, Template: wine.TemplateDir(base, testBuild),
		Wine: tools.Loader, WineServer: tools.Server, Listen: freeAddress(t), CPUs: runtime.NumCPU(),
		DialHNS: func(ctx context.Context) (net.Conn, error) {
			return testkit.DialIn(w.netns)(ctx, "tcp4", wire.HNSAddress)
		},
		CNIStatus: func(ctx context.Context) error {
			return platform.InNetns(w.netns, func() error { return cnishim.Status(ctx, w.dir) })
		},
	}
	w.serve()
	t.Cleanup(func() { w.stop() })
	conn, err := grpc.NewClient(w.options.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	w.conn, w.mirror = conn, "http://"+registry
	w.runtime, w.images = runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
	wait.NoError(w.t, 30*time.Second, "containerd is ready", func() error {
		r, err := w.runtime.Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range r.GetStatus().GetConditions() {
			if !c.Status && c.Type == runtimeapi.RuntimeReady {
				return errors.New(c.Message)
			}
		}
		return nil
	})
	t.Cleanup(w.removeAllPods)
	return w
}

// removeAllPods takes away what a failed test left, so that no process or mount outlives it.
func (w *world) removeAllPods() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	list, err := w.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	must(w.t, err)
	for _, p := range list.Items {
		_, err := w.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.Id})
		must(w.t, err)
		_, err = w.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.Id})
		must(w.t, err)
	}
}

// serve starts the CRI server in this process.
func (w *world) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cri.Run(ctx, w.options) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		must(w.t, <-done)
	})
}

// makePrefix makes the Wine template and the host's C: with a CNI plugin on it.
func makePrefix(w *world, base string) {
	w.t.Helper()
	tools, err := wine.Find()
	must(w.t, err)
	dlls := filepath.Join(base, "dll")
	run(w.t, "sh", "../dll/build.sh", dlls)
	build, err := wine.LookupBuild(testBuild)
	must(w.t, err)
	o := wine.TemplateOptions{Dir: wine.TemplateDir(base, testBuild), Build: build, DLLDir: dlls}
	must(w.t, tools.EnsureTemplate(w.ctx, o))
	m := wine.PrefixMount(o.Dir, w.dir)
	must(w.t, m.Ensure())
	w.t.Cleanup(func() { must(w.t, m.Unmount()) })

	prefix := wine.Prefix{Dir: m.Target}
	w.t.Cleanup(func() { must(w.t, tools.StopServer(context.Background(), prefix)) })
	server := tools.ServerCommand(prefix)
	log, err := os.Create(filepath.Join(base, "wineserver.log"))
	must(w.t, err)
	server.Stderr = log
	w.t.Cleanup(func() {
		if said, err := os.ReadFile(log.Name()); err != nil || len(said) > 0 {
			w.t.Logf("wineserver: %s (%v)", said, err)
		}
		must(w.t, log.Close())
	})
	must(w.t, platform.StartInNetns(w.netns, server)) // Wine's sockets are the server's
	boot := tools.Command(w.ctx, prefix, "cmd", "/c", "ver")
	must(w.t, platform.StartInNetns(w.netns, boot))
	must(w.t, boot.Wait()) // services are up from now on

	bin := filepath.Join(prefix.DriveC(), "opt/cni/bin")
	conf := filepath.Join(prefix.DriveC(), "etc/cni/net.d")
	must(w.t, errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(conf, 0o755)))
	cmd := exec.Command("go", "build", "-o", bin+"/", "./testdata/nullcni", "../../test/runtime/testdata/hcnnetwork")
	cmd.Env = append(os.Environ(), "GOOS=windows")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("building test programs: %v\n%s", err, out)
	}
}

// useCNI gives the Windows side its CNI configuration.
func (w *world) useCNI() {
	conf := `{"cniVersion":"0.3.1","name":"porthole","type":"nullcni","capabilities":{"portMappings":true}}`
	must(w.t, os.WriteFile(filepath.Join(w.driveC(), "etc/cni/net.d/10-porthole.conf"), []byte(conf), 0o644))
}

func (w *world) driveC() string { return filepath.Join(w.dir, "prefix", "drive_c") }

// start runs a program until the test ends; its output is shown if the test fails.
func (w *world) start(base, netns, program string, args ...string) {
	w.t.Helper()
	log, err := os.Create(filepath.Join(base, filepath.Base(program)+".log"))
	must(w.t, err)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	must(w.t, platform.StartInNetns(netns, cmd))
	w.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		log.Close()
		if data, err := os.ReadFile(log.Name()); err == nil && w.t.Failed() {
			for line := range strings.Lines(string(data)) {
				if !strings.Contains(line, "level=info") {
					w.t.Logf("%s: %s", filepath.Base(program), line)
				}
			}
		}
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
