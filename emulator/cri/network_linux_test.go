package cri_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	hcnNetwork = `{"Name":"porthole","Type":"L2Bridge","Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.244.8.0/24",` +
		`"Routes":[{"NextHop":"10.244.8.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`
	winBridge = `{"cniVersion":"1.0.0","name":"porthole","type":"win-bridge","apiVersion":2,"capabilities":{"portMappings":true,"dns":true},` +
		`"ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.8.0/24","rangeStart":"10.244.8.3"}]]}}`
)

// startHNS runs the real HNS and data plane for the host's namespace, which gets an uplink that leads nowhere.
func startHNS(w *world) {
	w.t.Helper()
	w.space.Connect("eth0", w.space, "far0")
	w.space.Address("eth0", "10.99.8.21/24")
	plane, err := dataplane.New(dataplane.Options{Netns: w.netns, Uplink: "eth0"})
	must(w.t, err)
	w.t.Cleanup(plane.Close)
	must(w.t, os.MkdirAll(filepath.Join(w.dir, "hnsd"), 0o755))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- serve.Run(ctx, serve.Options{HostDir: w.dir, Build: testBuild, Netns: w.netns, Listen: wire.HNSAddress, Uplink: "eth0", Plane: plane})
	}()
	w.t.Cleanup(func() {
		cancel()
		must(w.t, <-done)
	})
}

// TestUpstreamWinBridgePods gives pods their network by upstream's win-bridge.exe and the emulated HNS, and lets one talk
// to the other.
func TestUpstreamWinBridgePods(t *testing.T) {
	w := newWorld(t, true)
	for _, name := range []string{"win-bridge.exe", "host-local.exe"} {
		data, err := os.ReadFile(filepath.Join("../../bin/bundle/cni-windows", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(w.driveC(), "opt/cni/bin", name), data, 0o755))
	}

	must(t, os.WriteFile(filepath.Join(w.driveC(), "etc/cni/net.d/10-porthole.conf"), []byte(winBridge), 0o644))
	tools, err := wine.Find()
	must(t, err)
	cmd := tools.Command(w.ctx, wine.Prefix{Dir: filepath.Join(w.dir, "prefix")}, `C:\opt\cni\bin\hcnnetwork.exe`, hcnNetwork)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, platform.StartInNetns(w.netns, cmd))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("making the network: %v: %s", err, out.String())
	}
	before := hnsObjects(w)
	_, err = w.images.PullImage(w.ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: testImage}})
	must(t, err)
	server, client := w.runPod("server"), w.runPod("client")
	id := w.started(t, server, "serve", nil, "serve", "--udp", ":7")
	w.logShows(t, id, "serving HTTP")
	at := address(w, server)
	if at != "10.244.8.3" || address(w, client) != "10.244.8.4" {
		t.Errorf("pods have addresses %s and %s", at, address(w, client))
	}
	id = w.started(t, client, "get", nil, "get", "http://"+at+"/")
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "hostname=server client=10.244.8.4:") {
		t.Errorf("get: code %d\n%s", s.ExitCode, w.log(t, id))
	}
	id = w.started(t, client, "udp", nil, "udp", at+":7", "ping")
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "ping") {
		t.Errorf("udp: code %d\n%s", s.ExitCode, w.log(t, id))
	}
	id = w.started(t, client, "addresses", nil, "addresses")
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "10.244.8.4/") {
		t.Errorf("addresses: code %d\n%s", s.ExitCode, w.log(t, id))
	}
	for _, p := range []pod{server, client} {
		begin := time.Now()
		_, err = w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
		must(t, err)
		_, err = w.runtime.RemovePodSandbox(w.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
		must(t, err)
		t.Logf("removing a pod took %v", time.Since(begin).Round(time.Millisecond))
	}

	podWithoutHNS(w)
	removePodAlone(w, "after")
	wait.NoError(t, 20*time.Second, "HNS to have what it had before the pods", func() error {
		if after := hnsObjects(w); after != before {
			return fmt.Errorf("it has %s, had %s", after, before)
		}
		return nil
	})

	w.checkNothingLeft()
}

// removePodAlone makes a pod and removes it.
func removePodAlone(w *world, name string) {
	w.t.Helper()
	p := w.runPod(name)
	_, err := w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
	must(w.t, err)
	_, err = w.runtime.RemovePodSandbox(w.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
	must(w.t, err)
}

// podWithoutHNS asks for a pod while the service is stopped. It gets no network, and containerd gives it up although its CNI call
// cannot undo anything either.
func podWithoutHNS(w *world) {
	w.t.Helper()
	must(w.t, control.Host(w.dir).Call(w.ctx, "POST", "/service", serve.ServiceRequest{State: "stopped"}, nil))
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "late", Namespace: "default", Uid: "late"}}
	if _, err := w.runtime.RunPodSandbox(w.ctx, &runtimeapi.RunPodSandboxRequest{Config: config}); err == nil {
		w.t.Error("a pod got a network while HNS was stopped")
	}
	var dump serve.Dump
	must(w.t, control.Host(w.dir).Call(w.ctx, "GET", "/dump", nil, &dump))
	if len(dump.Netns) != 1 {
		w.t.Errorf("namespaces of pods while HNS is stopped: %v, want that of the pod that was given up", dump.Netns)
	}
	must(w.t, control.Host(w.dir).Call(w.ctx, "POST", "/service", serve.ServiceRequest{State: "running"}, nil))
}

func address(w *world, p pod) string {
	w.t.Helper()
	st, err := w.runtime.PodSandboxStatus(w.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	must(w.t, err)
	return st.GetStatus().GetNetwork().GetIp()
}

// hnsObjects counts the objects of HNS by kind.
func hnsObjects(w *world) string {
	w.t.Helper()
	var dump map[string]json.RawMessage
	must(w.t, control.Host(w.dir).Call(w.ctx, "GET", "/dump", nil, &dump))
	counts := map[string]int{}
	for kind, raw := range dump {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			counts[kind] = len(list)
		}
	}
	text, err := json.Marshal(counts)
	must(w.t, err)
	return string(text)
}
