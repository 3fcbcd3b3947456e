package kubelet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/sweep"
	"porthole.dev/porthole/cni/winbridge"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/kubelet/runtime"
)

// testSweep asks containerd which sandboxes it knows, as the sweep of a Windows node does, while a fake HNS has
// endpoints of one of them and of one that nobody knows. The endpoint of a sandbox stays while containerd knows it,
// also when it has stopped.
func testSweep(t *testing.T, w *world, parent string) {
	box := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: "swept", Namespace: namespace, Uid: "swept"},
		LogDirectory: w.Path("log"),
		Linux:        &cri.LinuxPodSandboxConfig{CgroupParent: parent}}
	made, err := w.Runtime.RunPodSandbox(w.ctx, &cri.RunPodSandboxRequest{Config: box})
	must(t, err)
	id := made.PodSandboxId

	h := hnstest.New(hns.Version{Major: 13, Minor: 3}, hns.Network{ID: "net", Name: "porthole", Type: hns.L2Bridge,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"),
			Gateway: netip.MustParseAddr("10.244.2.1")}}})
	config, err := contract.Parse(fmt.Appendf(nil,
		`{"name":"porthole","type":"win-bridge","ipam":{"subnet":"10.244.2.0/24","dataDir":%q}}`, t.TempDir()))
	must(t, err)
	plugin := attach.Plugin{Kind: winbridge.Kind{}, Reader: h, Writer: h, Rules: hnstest.Rules{Fake: h}}
	for i, container := range []string{id, "gone"} {
		guest := fmt.Sprintf("7f4c0000-0000-4000-8000-%012d", i)
		h.AddNamespace(hns.NamespaceID(guest))
		_, err := plugin.Add(w.ctx,
			attach.Call{Container: container, Namespace: guest, Interface: "eth0", Config: config})
		must(t, err)
	}

	s := sweep.Sweeper{Plugin: plugin, Sandboxes: func(ctx context.Context) ([]string, error) {
		return runtime.SandboxIDs(ctx, "unix://"+w.Path("containerd", "containerd.sock"))
	}}
	now := time.Now()
	frees := func(when string, want ...string) {
		t.Helper()
		freed, err := s.Pass(w.ctx, config, now)
		if err != nil || !slices.Equal(freed, want) {
			t.Errorf("%s: freed %v, want %v: %v", when, freed, want, err)
		}
		now = now.Add(sweep.Grace)
	}
	frees("at first")
	frees("after the grace time", "gone")
	_, err = w.Runtime.StopPodSandbox(w.ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	must(t, err)
	frees("with the sandbox stopped")
	frees("with the sandbox stopped for long")
	_, err = w.Runtime.RemovePodSandbox(w.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	must(t, err)
	frees("with the sandbox removed")
	frees("with the sandbox removed for long", id)
}
