package host_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// The pods of the shutdown: nodeGrace is what those have that are not critical, of the shutdownGracePeriod of
// podsConfig.
const (
	nodeGrace  = 4 * time.Second
	allGrace   = 6 * time.Second
	podsConfig = `"staticPodPath": "C:\\k\\manifests", "shutdownGracePeriod": "6s", "shutdownGracePeriodCriticalPods": "2s"`
	podImage   = "testkit.local/testapp:1"
)

// podsOfHost are two static pods and a runtime in memory behind them, at the address of the host's CRI: the pod polite
// has a hook before its end, the pod stubborn ends only when it is killed, long before the minute that its own grace
// would give it.
type podsOfHost struct {
	fake *runtimetest.Fake

	mu    sync.Mutex
	hooks []string // commands that were run in containers
}

// servePods starts the runtime in the host's network namespace, and writes the pods into the kubelet's folder.
func (w *world) servePods(t *testing.T) *podsOfHost {
	t.Helper()
	p := &podsOfHost{fake: runtimetest.New(podImage)}
	p.fake.Program = func(c *cri.ContainerConfig) runtimetest.Process {
		return runtimetest.Process{Stops: 10 * time.Millisecond, IgnoresStop: slices.Contains(c.Args, "stubborn")}
	}
	p.fake.RunCommand = func(_ *cri.ContainerConfig, cmd []string) (int32, string, time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hooks = append(p.hooks, strings.Join(cmd, " "))
		return 0, "", 10 * time.Millisecond
	}

	var listener net.Listener
	err := platform.InNetns(platform.NetnsPath("porthole-"+w.name), func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:10091")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The runtime writes logs itself, and its files are this machine's: C: is no folder here.
	server := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any,
			error) {
			switch r := r.(type) {
			case *cri.RunPodSandboxRequest:
				r.Config.LogDirectory = ""
			case *cri.CreateContainerRequest:
				r.SandboxConfig.LogDirectory = ""
			}
			return next(ctx, r)
		}))
	runtimetest.Register(server, p.fake)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	folder := filepath.Join(w.driveC(), "k", "manifests")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, hook := range map[string]string{
		"polite": `, "lifecycle": {"preStop": {"exec": {"command": ["goodbye"]}}}`, "stubborn": ""} {
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"terminationGracePeriodSeconds": 60,
 "containers": [{"name": "app", "image": %q, "args": [%q]%s}]}}`, name, podImage, name, hook)
		if err := os.WriteFile(filepath.Join(folder, name+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run waits until both pods run.
func (p *podsOfHost) run(t *testing.T) {
	t.Helper()
	wait.NoError(t, 60*time.Second, "the pods run", func() error {
		if p.fake.Count("StartContainer") < 2 {
			return fmt.Errorf("the runtime was asked for:\n%s", p.fake.Calls())
		}
		return nil
	})
}

// ended checks what became of the pods when the host shut down: the hook has run and both have ended, the one that
// does not listen after the period of its priority; only then had the kubelet's service stopped, before the one that
// it depends on.
func (p *podsOfHost) ended(t *testing.T, services []scm.Ended) {
	t.Helper()
	at := func(name string) int {
		return slices.IndexFunc(services, func(e scm.Ended) bool { return e.Service == name })
	}
	kubelet, routes := at("kubelet"), at("porthole-routes")
	if kubelet < 0 || routes < kubelet {
		t.Fatalf("services ended as %+v, want kubelet before porthole-routes, which it depends on", services)
	}
	if took := services[kubelet].Took; took < nodeGrace || took > allGrace+10*time.Second {
		t.Errorf("the kubelet's service stopped after %v; its pods have %v, of %v", took, nodeGrace, allGrace)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if fmt.Sprint(p.hooks) != "[goodbye]" {
		t.Errorf("hooks that ran: %v", p.hooks)
	}
	if n := p.fake.Count("StopContainer"); n != 2 {
		t.Errorf("%d containers were stopped:\n%s", n, p.fake.Dump())
	}
}
