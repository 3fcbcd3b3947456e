package kubelet

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Classes of NtQuerySystemInformation behind the counters: GlobalMemoryStatusEx and GetPerformanceInfo ask for the
// first, GetSystemTimes for the second.
const (
	memoryCounters    = "2"
	processorCounters = "8"
)

// TestCountersFail starts kubelet.exe on a host that does not answer about its memory, its processors, or either: pods
// run, and only what is not known is missing in its figures.
// Row 1.104.
func TestCountersFail(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	h := newWindowsHost(t, bin)
	h.startPipe()
	file := h.path("System Volume Information", "porthole-faults")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))

	for i, faults := range []string{memoryCounters, processorCounters, memoryCounters + " " + processorCounters, ""} {
		must(t, os.WriteFile(file, []byte(faults), 0o644))
		kill := h.startKubelet("npipe:////./pipe/containerd-containerd")
		h.runs(fmt.Sprint("pod-", i))
		memory, processors := i == 1 || i == 3, i == 0 || i == 3
		wait.NoError(t, 60*time.Second, "figures of the node", func() error {
			node, err := h.figures()
			if err != nil {
				return err
			}
			has := node.Memory != nil && node.Memory.WorkingSetBytes != nil && *node.Memory.WorkingSetBytes > 0
			busy := node.CPU != nil && node.CPU.UsageCoreNanoSeconds != nil && *node.CPU.UsageCoreNanoSeconds > 0
			if has != memory || busy != processors || node.Fs == nil || *node.Fs.CapacityBytes == 0 {
				text, _ := json.Marshal(node)
				return fmt.Errorf("without the counters %q they are %s", faults, text)
			}
			return nil
		})
		kill()
	}
}

// figures asks the kubelet for those of the node.
func (h *windowsHost) figures() (stats.NodeStats, error) {
	text, err := h.ask("/stats/summary")
	if err != nil {
		return stats.NodeStats{}, err
	}
	var all stats.Summary
	err = json.Unmarshal(text, &all)
	return all.Node, err
}

// ask returns what the kubelet's server answers to a GET of a path.
func (h *windowsHost) ask(path string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
			DialContext: testkit.DialIn(h.space.Path)}}
	resp, err := client.Get("https://127.0.0.1:10250" + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the kubelet answers %s: %s", resp.Status, text)
	}
	return text, err
}
