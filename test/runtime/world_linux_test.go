package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/wakeup"
)

const (
	relayAddress = "127.0.0.1:10091"
	pipe         = `\\.\pipe\containerd-containerd`
)

// forWindows is the environment in which the go command builds programs of the host.
var forWindows = []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"}

// world is an emulated host with containerd.exe, and clients of its CRI.
type world struct {
	t              *testing.T
	porthole, name string
	dir            string // state folder
	relay          string // program that serves the named pipe at relayAddress
	runtime        runtimeapi.RuntimeServiceClient
	images         runtimeapi.ImageServiceClient
}

// programs are the porthole, its DLLs and its bundle, made once for all tests, and the state folder with their Wine
// templates.
type programs struct {
	dir, porthole, relay, state string
	built                       bool // by `make build`
}

// prepared are the programs that all tests have; its dir is "" until one of them needs it.
var prepared programs

// TestMain removes what buildPrograms has made.
func TestMain(m *testing.M) {
	code := m.Run()
	if prepared.dir != "" {
		if err := os.RemoveAll(prepared.dir); err != nil {
			fmt.Fprintln(os.Stderr, "runtime:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// buildPrograms makes the programs, if no test before has.
func buildPrograms(t *testing.T) programs {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("namespaces and mounts need root")
	}
	if prepared.porthole != "" {
		return prepared
	}
	if prepared.dir == "" {
		dir, err := os.MkdirTemp("", "porthole-runtime-")
		if err != nil {
			t.Fatal(err)
		}
		prepared.dir = dir
	}
	prepared = buildAt(t, prepared.dir) // or ends this test, and the next one tries again
	return prepared
}

func buildAt(t *testing.T, dir string) programs {
	t.Helper()
	p := programs{dir: dir, porthole: filepath.Join(dir, "bin", "porthole"), relay: filepath.Join(dir, "relay.exe"),
		state: filepath.Join(dir, "state")}
	command(t, forWindows, "go", "build", "-o", p.relay, "./testdata/relay")
	if bin := os.Getenv("PORTHOLE_RUNTIME_BIN"); bin != "" { // for a quick look on a busy machine
		p.porthole, p.built = filepath.Join(bin, "porthole"), true
		return p
	}

	command(t, nil, "go", "build", "-o", p.porthole, "../../cmd/porthole")
	bundle, err := filepath.Abs("../../bin/bundle")
	if err != nil {
		t.Fatal(err)
	}
	dlls, err := testkit.DLLs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"containerd.exe", "containerd-shim-runhcs-v1.exe", "ctr.exe"} {
		if _, err := os.Stat(filepath.Join(bundle, "windows", name)); err != nil {
			t.Fatalf("%v (run `make windows-runtime`)", err)
		}
	}
	windows := filepath.Join(dir, "bin", "windows")
	for from, to := range map[string]string{bundle: filepath.Join(dir, "bin", "bundle"),
		dlls: filepath.Join(windows, "dll")} {
		if err := errors.Join(os.MkdirAll(windows, 0o755), os.Symlink(from, to)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	return p
}

func command(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// newWorld makes a host of a Windows build; the test's end removes it.
func (p programs) newWorld(t *testing.T, build string) *world {
	t.Helper()
	w := &world{t: t, porthole: p.porthole, dir: p.state, name: fmt.Sprintf("t%d", os.Getpid())}
	begin := time.Now()
	out := w.must("create", w.name, "--build", build)
	t.Logf("made in %v: %s", time.Since(begin).Round(100*time.Millisecond), strings.TrimSpace(out))
	t.Cleanup(func() {
		if t.Failed() {
			w.showLog()
		}
		w.must("delete", w.name)
		if left := platform.Cgroups("/porthole/" + w.name); len(left) > 0 {
			t.Errorf("cgroups are left: %v", left)
		}
	})
	w.relay = p.relay
	w.connect()
	return w
}

// connect runs the relay on the host until the test ends, and connects the clients. A relay that ends is started
// again: it ends with the host's wineserver, and when the host clears away what runs before the next one starts.
func (w *world) connect() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			out, err := exec.CommandContext(ctx, w.porthole, "host", "run", "--dir", w.dir, w.name, "--", w.relay,
				relayAddress, pipe).CombinedOutput()
			if wakeup.Pause(ctx, 200*time.Millisecond) {
				w.t.Logf("the relay ended: %v %s", err, out)
			}
		}
	}()

	dial := testkit.DialIn(platform.NetnsPath("porthole-" + w.name))
	conn, err := grpc.NewClient("passthrough:///containerd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dial(ctx, "tcp4", relayAddress)
		}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		conn.Close()
		cancel()
		<-ended
	})
	w.runtime, w.images = runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
}

// must runs `porthole host` and returns what it printed.
func (w *world) must(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.porthole, append([]string{"host", args[0], "--dir", w.dir}, args[1:]...)...)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("porthole host %v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return out.String()
}

func (w *world) driveC() string { return filepath.Join(w.dir, "hosts", w.name, "prefix", "drive_c") }

// log returns what containerd has logged.
func (w *world) log() string {
	data, _ := os.ReadFile(filepath.Join(w.dir, "hosts", w.name, "logs", "containerd.log")) // none yet is an empty one
	return string(data)
}

func (w *world) showLog() {
	for line := range strings.Lines(w.log()) {
		if !strings.Contains(line, "level=info") {
			w.t.Log(line)
		}
	}
}

// call bounds one call of CRI.
func call(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
