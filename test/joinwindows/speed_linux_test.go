package joinwindows

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
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
)

// TestJoinSpeed measures the join of emulated Windows hosts, the start of a program, its reboot, and the size of the archive.
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
		figure.Print(figure.Figure{Name: name, Unit: unit, Ours: figure.Median(samples), Target: target, Samples: map[string][]float64{"ours": samples}, Note: note})
	}
	out("windows-join-to-ready", "s", joins, joinTarget, "emulated host, build 20348, images present, as the report of join has it")
	out("windows-join-again", "s", again, againTarget, "0 writes: TestJoinWindows")
	out("windows-program-start", "s", starts, startTarget, "porthole.exe version, with the start of porthole host run and Wine's")
	out("windows-reboot-to-ready", "s", boots, 0, "from the end of porthole host reboot; without pods")
	out("windows-zip", "MB", []float64{zipSize(t)}, zipTarget, "the programs and CNI plugins of the archive, deflated")
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
		out, err := h.kubectl("get", "node", h.name, "-o", `jsonpath={.status.nodeInfo.bootID} {.status.conditions[?(@.type=="Ready")].status}`)
		return err == nil && out == "2 True"
	})
	return time.Since(start).Seconds()
}

// zipSize returns the size of the programs of the archive for Windows, in MB. kubelet.exe is porthole.exe.
func zipSize(t *testing.T) float64 {
	t.Helper()
	var size counter
	w := zip.NewWriter(&size)
	for _, name := range []string{"porthole.exe", "kube-proxy.exe", "win-bridge.exe", "win-overlay.exe", "wincni.exe", "ovn_cni.exe"} {
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
