package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// TestPluginIsKilled kills our win-bridge.exe at random moments of ADD and DEL, while one HNS call in ten fails before
// or after it has taken effect. DEL, repeated as runtimes do, leaves no endpoint and no address. PORTHOLE_CNI_KILLS
// says how many pods (make test-cni: 60).
func TestPluginIsKilled(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	pods := 3
	if n, err := strconv.Atoi(os.Getenv("PORTHOLE_CNI_KILLS")); err == nil {
		pods = n
	}
	h := startPluginHost(t, 20348)
	h.createNetwork(bridgeNetwork)
	p := h.pod("sandbox1")
	call := cni{exe: "win-bridge", command: "ADD", config: bridgeListed("1.0.0", ""), pod: p}
	h.mustRun(call) // Wine has started by then, which a kill must not fall into
	call.command = "DEL"
	h.mustRun(call)
	before := h.counts()

	h.control("POST", "/faults", `[{"function": "Hcn*", "program": "win-bridge.exe", "action": "fail", "code": 2147944122, "probability": 0.05, "seed": 7},
 {"function": "Hcn*", "program": "win-bridge.exe", "action": "after", "code": 2147944122, "probability": 0.05, "seed": 8}]`, nil)
	random := rand.New(rand.NewPCG(1, 1))
	cut := 0
	for i := range pods {
		call.command = "ADD"
		if h.killed(call, time.Duration(random.IntN(600))*time.Millisecond) {
			cut++
		}
		call.command = "DEL"
		if i%2 == 1 {
			h.killed(call, time.Duration(random.IntN(600))*time.Millisecond)
		}
		h.repeat(call)
		if after := h.counts(); after != before || len(h.leases("porthole")) > 0 {
			t.Fatalf("pod %d left %s and %v, before: %s", i, after, h.leases("porthole"), before)
		}
	}
	h.control("POST", "/faults", `[]`, nil)
	h.noDrift()
	t.Logf("%d of %d ADDs were cut short", cut, pods)
}

// killed starts a call and kills it after a while. It reports whether the call was still under way.
func (h pluginHost) killed(c cni, after time.Duration) bool {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), after)
	defer cancel()
	cmd := h.command(ctx, c)
	must(h.t, platform.StartInNetns(h.path, cmd))
	return cmd.Wait() != nil && ctx.Err() != nil
}

// repeat makes a call until it succeeds.
func (h pluginHost) repeat(c cni) {
	h.t.Helper()
	var errs []string
	for range 20 {
		_, _, err := h.run(c)
		if err == nil {
			return
		}
		errs = append(errs, fmt.Sprint(err))
	}
	h.t.Fatalf("%s never succeeded:\n%s", c.command, strings.Join(errs, "\n"))
}
