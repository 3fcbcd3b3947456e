package serve

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/pod"
)

// TestPartOfTheMachine: what cannot be read of the machine is missing in the statistics, and not a zero; pods and the
// rest are there.
//
// Row 1.104.
func TestPartOfTheMachine(t *testing.T) {
	usage := platform.Usage{MemoryTotal: 100, MemoryUsed: 70, MemoryWorkingSet: 60, OwnMemory: 1}
	srv := startServer(t, Options{Auth: AuthOptions{Anonymous: true}, Stats: &fixedStats{pods: 2},
		Pods: func() []pod.View { return nil }, RootDir: tempDir(t),
		Machine: Machine{Usage: func(string) (platform.Usage, error) { return usage, errors.New("no such counter") }}})
	code, page := get(t, client(), srv.URL+"/metrics/resource", "")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, page)
	}
	for text, want := range map[string]bool{"node_cpu_usage_seconds_total": false,
		"node_memory_working_set_bytes 60": true,
		"pod_cpu_usage_seconds_total{":     true, "resource_scrape_error 0": true} {
		if strings.Contains(page, text) != want {
			t.Errorf("%s: %v, want %v in\n%s", text, !want, want, page)
		}
	}
	_, page = get(t, client(), srv.URL+"/stats/summary", "")
	if strings.Contains(page, `"capacityBytes":0`) || !strings.Contains(page, `"workingSetBytes":60`) {
		t.Errorf("summary: %s", page)
	}
	if !strings.Contains(page, `"availableBytes":40`) {
		t.Errorf("what is left of the memory is not what eviction goes by: %s", page)
	}
}
