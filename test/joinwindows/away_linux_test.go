package joinwindows

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit"
)

// awayTime is how long the API server is away in the middle of a join.
const awayTime = 15 * time.Second

// TestAway: the API server goes away in the middle of a join. If it comes back, the join ends with a node. If it does
// not, a join that has no services yet has failed, and leave leaves nothing; one that has them says that they go on
// trying, which they do.
func TestAway(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("takes minutes: PORTHOLE_JOIN=20348 or `make test-join`")
	}
	h := faulty{newHost(t, "win82", "20348")}
	before, routes := h.files(), h.host.routes()
	_, line := h.token()
	for _, after := range []string{"certificate made", "firewall made"} {
		code, out := h.joinUntil(after, func() { time.AfterFunc(awayTime, h.away()) }, line...)
		if code != 0 || !strings.Contains(out, "node "+h.name+" is Ready") {
			t.Fatalf("away for %v after %q: exit code %d: %s", awayTime, after, code, out)
		}
		h.leavesNothing(before, routes)
		if out, err := h.kubectl("delete", "node", h.name); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}

	short := append(slices.Clone(line), "--timeout", "20s")
	var back func()
	if code, out := h.joinUntil("certificate made", func() { back = h.away() }, short...); code != 1 ||
		!strings.Contains(out, "cannot reach https://10.99.0.11:6443") {
		t.Errorf("away for ever after the certificate: exit code %d: %s", code, out)
	}
	h.leavesNothing(before, routes)
	back()

	if code, out := h.joinUntil("firewall made", func() { back = h.away() }, short...); code != 6 {
		t.Errorf("away for ever after the files: exit code %d: %s", code, out)
	}
	back()
	h.podWorks("after the API server came back")
}

// joinUntil runs a join, calls then when it has printed a text, and returns how it ended.
func (h faulty) joinUntil(text string, then func(), args ...string) (code int, out string) {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "porthole"),
		append([]string{"host", "run", "--dir", state, h.name, "--", program}, args...)...)
	code, out, err := testkit.RunUntil(cmd, 5*time.Minute, text, then)
	if err != nil {
		h.t.Fatal(err)
	}
	return code, out
}
