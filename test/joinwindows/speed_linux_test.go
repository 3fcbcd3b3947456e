package joinwindows

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/figure"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Targets on a machine of two processors.
const (
	joinTarget  = 15.0 // seconds until Ready, images present
	againTarget = 1.0  // seconds
	startTarget = 0.3  // seconds of the start of one program
	zipTarget   = 60.0 // MB of 10^6 bytes
	podsTarget  = 60.0 // seconds from the end of a reboot until podsCount pods answer
	podsCount   = 30
	nodesTarget = 180.0 // seconds until nodesCount hosts that join at the same moment are Ready
	nodesCount  = 20
)

// TestJoinSpeed measures the join of emulated Windows hosts, the start of a program, its reboot, and the size of the
// archive.
func TestJoinSpeed(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("PORTHOLE_JOIN_SPEED")) // none is 0
	if rounds == 0 {
		t.Skip("measures for minutes: PORTHOLE_JOIN_SPEED=3, or `make bench-join`")
	}
	var joins, again, starts, boots []float64
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			h := newHost(t, "win4"+strconv.Itoa(i), "20348")
			for range 5 {
				begin := time.Now()
				if out, code := h.exe(program, "version"); code != 0 {
					t.Fatalf("exit code %d: %s", code, out)
				}
				starts = append(starts, time.Since(begin).Seconds())
			}
			_, line := h.token()
			joins = append(joins, seconds(h, line...))
			again = append(again, seconds(h, "join"))
			boots = append(boots, bootSeconds(h))
		})
	}

	out := func(name, unit string, samples []float64, target float64, note string) {
		figure.Print(figure.Figure{Name: name, Unit: unit, Ours: figure.Median(samples), Target: target,
			Samples: map[string][]float64{"ours": samples}, Note: note})
	}
	out("windows-join-to-ready", "s", joins, joinTarget,
		"emulated host, build 20348, images present, as the report of join has it")
	out("windows-join-again", "s", again, againTarget, "0 writes: TestJoinWindows")
	out("windows-program-start", "s", starts, startTarget,
		"porthole.exe version, with the start of porthole host run and Wine's")
	out("windows-reboot-to-ready", "s", boots, 0, "from the end of porthole host reboot; without pods")
	out("windows-zip", "MB", []float64{zipSize(t)}, zipTarget, "the programs and CNI plugins of the archive, deflated")
}

// TestJoinSpeedPods measures how long a node with many pods takes from the end of its reboot until all of them answer.
func TestJoinSpeedPods(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN_SPEED") == "" {
		t.Skip("measures for minutes: `make bench-join`")
	}
	h := newHost(t, "win48", "20348")
	_, line := h.token()
	seconds(h, line...)
	var pods []string
	for i := range podsCount {
		pods = append(pods, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "many-%d", "labels": {"app": "many"}}, "spec": {"nodeName": %q, "terminationGracePeriodSeconds": 0,
  "containers": [{"name": "c", "image": "porthole/testapp:1", "args": ["serve", "--http", ":8080"]}]}}`, i, h.name))
	}
	file := filepath.Join(t.TempDir(), "pods.json")
	if err := os.WriteFile(file, []byte(`{"apiVersion": "v1", "kind": "List", "items": [`+strings.Join(pods, ",")+`]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := h.kubectl("apply", "-f", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	crowded{h}.allAnswer(5 * time.Minute)

	h.must(3*time.Minute, "host", "reboot", h.name, "--dir", state)
	start := time.Now()
	crowded{h}.allAnswer(5 * time.Minute)
	took := time.Since(start).Seconds()
	figure.Print(figure.Figure{Name: "windows-reboot-to-pods", Unit: "s", Ours: took, Target: podsTarget,
		Samples: map[string][]float64{"ours": {took}},
		Note:    fmt.Sprintf("%d pods answer, from the end of porthole host reboot", podsCount)})
	if out, err := h.kubectl("delete", "pods", "-l", "app=many", "--force", "--wait=false"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// crowded is a host with podsCount pods.
type crowded struct{ *host }

// allAnswer waits until each of the pods answers at the address that the API server has of it. One that has the
// address of before answers nobody.
func (h crowded) allAnswer(limit time.Duration) {
	h.t.Helper()
	wait.NoError(h.t, limit, "all pods to answer", func() error {
		out, err := h.kubectl("get", "pods", "-l", "app=many", "-o", "jsonpath={.items[*].status.podIP}")
		if err != nil {
			return err
		}
		ips := strings.Fields(out)
		if len(ips) != podsCount {
			return fmt.Errorf("%d pods have addresses", len(ips))
		}
		for _, ip := range ips {
			if err := h.get("http://" + ip + ":8080/"); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestJoinSpeedNodes measures how long many hosts take that join at the same moment, until the last is Ready.
func TestJoinSpeedNodes(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN_SPEED") == "" {
		t.Skip("measures for minutes: `make bench-join`")
	}
	var hosts []*host
	var lines [][]string
	for i := range nodesCount {
		h := newHost(t, fmt.Sprintf("win%d", 100+i), "20348")
		_, line := h.token()
		hosts, lines = append(hosts, h), append(lines, line)
	}

	times, start := make([]float64, len(hosts)), time.Now()
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() {
			out, err := porthole(10*time.Minute,
				append([]string{"host", "run", "--dir", state, h.name, "--", program}, lines[i]...)...)
			if err != nil || !strings.Contains(out, "node "+h.name+" is Ready") {
				node, _ := h.kubectl("describe", "node", h.name) // only for the text
				t.Errorf("%s: %v: %s\n%s", h.name, err, out, node)
			}
			times[i] = time.Since(start).Seconds()
		})
	}
	all.Wait()
	figure.Print(figure.Figure{Name: "windows-nodes-join-at-once", Unit: "s", Ours: slices.Max(times),
		Target: nodesTarget, Samples: map[string][]float64{"ours": times},
		Note: fmt.Sprintf("%d emulated hosts on one machine, until the last is Ready", nodesCount)})
}

// seconds runs a join, which must succeed, and returns how long it took.
func seconds(h *host, args ...string) float64 {
	h.t.Helper()
	r, code := h.report(args...)
	if code != 0 {
		h.t.Fatalf("%v: exit code %d: %s", args[0], code, r.Error)
	}
	return r.Seconds
}

// bootSeconds reboots the host and returns how long its node takes to be Ready.
func bootSeconds(h *host) float64 {
	h.t.Helper()
	h.must(3*time.Minute, "host", "reboot", h.name, "--dir", state)
	start := time.Now()
	wait.True(h.t, 2*time.Minute, "the node to be Ready in its second boot", func() bool {
		out, err := h.kubectl("get", "node", h.name, "-o",
			`jsonpath={.status.nodeInfo.bootID} {.status.conditions[?(@.type=="Ready")].status}`)
		return err == nil && out == "2 True"
	})
	return time.Since(start).Seconds()
}

// zipSize returns the size of the programs of the archive for Windows, in MB. kubelet.exe is porthole.exe.
func zipSize(t *testing.T) float64 {
	t.Helper()
	var size counter
	w := zip.NewWriter(&size)
	for _, name := range []string{"porthole.exe", "kube-proxy.exe", "win-bridge.exe", "win-overlay.exe", "wincni.exe",
		"ovn_cni.exe"} {
		f, err := os.Open(filepath.Join(bin, "windows", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		part, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(part, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return float64(size) / 1e6
}

// counter counts what is written.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
