package kubelet

import (
	"strings"
	"testing"

	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/config"
)

// TestOrderOfStart: what starts when. What may refuse the start comes before what changes the machine, the API server
// before the runtime, and what pods need before the pods.
func TestOrderOfStart(t *testing.T) {
	cfg, _, err := config.Load(config.Source{Windows: platform.IsWindows})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := component.Order((&parts{cfg: cfg, given: &Options{}}).components())
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for line := range strings.Lines(plan.String()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		names = append(names, name)
	}
	want := "lock, host, figures, addresses, machine, network gate, node, pins, user ids, garbage, resolver, API, " +
		"privileges, programs, mounts, runtime, cgroups, images, plugins, volumes, facts, allotments, pods, " +
		"plugin watch, address watch, network watch, chains, server, log rotation, pod resources, shutdown, kubelet"
	if platform.IsWindows {
		want = strings.Replace(want, "chains, ", "", 1)
	}
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("started in the order\n%s\nwant\n%s", got, want)
	}
}

// TestWithoutServer: a kubelet whose server is off rotates logs all the same, as upstream's.
func TestWithoutServer(t *testing.T) {
	cfg, _, err := config.Load(config.Source{Windows: platform.IsWindows})
	if err != nil {
		t.Fatal(err)
	}
	off := false
	cfg.EnableServer = &off
	plan, err := component.Order((&parts{cfg: cfg, given: &Options{}}).components())
	if err != nil {
		t.Fatal(err)
	}
	if text := plan.String(); strings.Contains(text, "server") || !strings.Contains(text, "log rotation") {
		t.Errorf("started:\n%s", text)
	}
}
