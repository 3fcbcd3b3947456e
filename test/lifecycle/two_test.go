package lifecycle

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// webPods are a server on a Linux and one on a Windows node.
const webPods = `
apiVersion: v1
kind: Pod
metadata: {name: web-linux}
spec:
  nodeName: lin01
  containers: [{name: app, image: "porthole/testapp:1", args: [serve, --http, ":8080"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-windows}
spec:
  nodeName: win01
  containers: [{name: app, image: "porthole/testapp:1", args: [serve, --http, ":8080"]}]
`

// TestTwoClusters runs two clusters on one machine. Each has only its own objects. When one is removed, no process,
// container or open connection of the other changes.
func TestTwoClusters(t *testing.T) {
	first, second := newCluster(t), newCluster(t)
	first.must("up")
	first.kubectl("apply", "-f", first.file("pods.yaml", webPods))
	first.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=50s")
	before := inventory(second.dir) // with what the first one has for its pods
	second.must("up", "--name", "two")
	second.kubectl("apply", "-f", second.file("pods.yaml", webPods))
	second.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=50s")
	first.kubectl("create", "configmap", "only-here")
	if out := second.kubectl("get", "configmaps"); strings.Contains(out, "only-here") {
		t.Errorf("the second cluster has the first one's objects:\n%s", out)
	}

	streams := []*stream{
		first.stream("porthole-lin01", "web-windows"), first.stream("porthole-win02", "web-linux"),
		second.stream("porthole.two-lin01", "web-windows"),
	}
	pids, containers := first.pids(), first.containers()
	second.must("down")
	compare(t, before, inventory(second.dir))
	if after := first.pids(); after != pids {
		t.Errorf("the first cluster's processes were\n%s\nand are\n%s", pids, after)
	}
	if after := first.containers(); after != containers {
		t.Errorf("the first cluster's containers were\n%s\nand are\n%s", containers, after)
	}

	for i, s := range streams[:2] {
		s.ask(t, 5)
		if answers, dials := s.end(); answers < 10 || dials != 1 {
			t.Errorf("stream %d of the first cluster: %d answers, %d connections", i, answers, dials)
		}
	}
	streams[2].end()
	if out, err := first.run(time.Minute, "status"); err != nil || strings.Contains(out, "false") {
		t.Errorf("%v\n%s", err, out)
	}
}

// kubectl runs kubectl on the cluster.
func (c cluster) kubectl(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), c.porthole, append([]string{"kubectl", "--dir", c.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// file writes a file that goes with the test.
func (c cluster) file(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// containers are the containers of all pods, with how often they began.
func (c cluster) containers() string {
	return c.kubectl("get", "pods", "-A", "-o",
		`jsonpath={range .items[*].status.containerStatuses[*]}{.containerID} {.restartCount}{"\n"}{end}`)
}

// stream asks a pod again and again over one connection, from within a node.
type stream struct {
	answers, dials atomic.Int64
	cancel         context.CancelFunc
	done           chan struct{}
}

func (c cluster) stream(netns, pod string) *stream {
	address := strings.TrimSpace(c.kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}"))
	s := &stream{done: make(chan struct{})}
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		s.dials.Add(1)
		err = platform.InNetns(platform.NetnsPath(netns), func() (err error) {
			conn, err = net.DialTimeout(network, address, 3*time.Second)
			return err
		})
		return conn, err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: dial, MaxConnsPerHost: 1}}
	ctx, cancel := context.WithCancel(c.t.Context())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			s.once(ctx, client, address)
		}
	}()
	s.ask(c.t, 1)
	return s
}

// once asks once; an answer counts.
func (s *stream) once(ctx context.Context, client *http.Client, address string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+":8080/", nil)
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		s.answers.Add(1)
	}
	resp.Body.Close()
}

// ask waits for so many more answers.
func (s *stream) ask(t *testing.T, more int64) {
	t.Helper()
	want := s.answers.Load() + more
	wait.NoError(t, 20*time.Second, "answers", func() error {
		if n := s.answers.Load(); n < want {
			return fmt.Errorf("%d, want %d", n, want)
		}
		return nil
	})
}

// end stops asking.
func (s *stream) end() (answers, dials int64) {
	s.cancel()
	<-s.done
	return s.answers.Load(), s.dials.Load()
}
