//go:build !windows

package probes

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"porthole.dev/porthole/check/probe"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// TestRuntime plays the probe of the runtime against a runtime in memory: it asks all, with pods and without, and
// removes what it made.
func TestRuntime(t *testing.T) {
	fake := runtimetest.New("i")
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimetest.Register(server, fake)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	o := probe.Options{Runtime: probe.RuntimeOptions{Endpoint: "unix://" + socket, Image: "i"}}
	before := fake.Dump()
	report, err := probe.RunRuntime(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if fake.Dump() != before {
		t.Errorf("without changes the runtime went from\n%s\nto\n%s", before, fake.Dump())
	}
	// Over a socket the fake sends no events, as containerd before 1.7.
	if l, _ := report.Get("call.GetContainerEvents"); l.Value != "Unimplemented" {
		t.Errorf("%s", l)
	}

	o.Changes = true
	report, err = probe.RunRuntime(t.Context(), o)
	if err != nil || len(report.Left) > 0 {
		t.Fatalf("error %v, left %v", err, report.Left)
	}
	for _, line := range []string{"sandbox.run", "container.start", "stats.failures", "hostprocess.container-only",
		"sandbox.address"} {
		if _, ok := report.Get(line); !ok {
			t.Errorf("no line %s: %v", line, report.Lines)
		}
	}
	if strings.Contains(fake.Dump(), "porthole-check") {
		t.Errorf("left in the runtime:\n%s", fake.Dump())
	}
}

// TestRuntimeAbsent: an endpoint at which nobody listens is an error that names it.
func TestRuntimeAbsent(t *testing.T) {
	endpoint := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	_, err := probe.RunRuntime(t.Context(), probe.Options{Runtime: probe.RuntimeOptions{Endpoint: endpoint}})
	if err == nil || !strings.Contains(err.Error(), endpoint) {
		t.Errorf("error %v", err)
	}
}
