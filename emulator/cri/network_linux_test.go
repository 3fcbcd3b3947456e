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
	"porthole.dev/porthole/emulator/hnsd"
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

// startHNS runs HNS for the host's namespace. With packets it has a data plane, and the host an uplink that leads nowhere.
func startHNS(w *world, packets bool) {
	w.t.Helper()
	var plane serve.DataPlane = serve.NoDataPlane{}
	if packets {
		w.space.Connect("eth0", w.space, "far0")
		w.space.Address("eth0", "10.99.8.21/24")
		carried, err := dataplane.New(dataplane.Options{Netns: w.netns, Uplink: "eth0"})
		must(w.t, err)
		w.t.Cleanup(carried.Close)
		plane = carried
	}
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
// to the other. Then it gives the host configurations of other plugins.
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
		t.Errorf("get: code %d\n%q", s.ExitCode, w.log(t, id))
	}
	id = w.started(t, client, "udp", nil, "udp", at+":7", "ping")
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "ping") {
		t.Errorf("udp: code %d\n%q", s.ExitCode, w.log(t, id))
	}
	id = w.started(t, client, "addresses", nil, "addresses")
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "10.244.8.4/") {
		t.Errorf("addresses: code %d\n%q", s.ExitCode, w.log(t, id))
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
	namespaceFaults(w)
	removePodAlone(w, "after")
	pluginStatus(w)
	othersPlugins(w)
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

// pluginStatus takes host-local.exe away, which win-bridge asks at STATUS: the network is ready as far as a configuration of version 1.0.0
// knows, and not ready, with the plugin's words, by one of version 1.1.0.
func pluginStatus(w *world) {
	w.t.Helper()
	conf, ipam := filepath.Join(w.driveC(), "etc/cni/net.d/10-porthole.conf"), filepath.Join(w.driveC(), "opt/cni/bin/host-local.exe")
	for _, c := range []struct {
		version string
		away    bool
		want    string // the reason why the network is not ready
	}{
		{"1.1.0", false, ""},
		{"1.1.0", true, "host-local"},
		{"1.0.0", true, ""},
	} {
		must(w.t, os.WriteFile(conf, []byte(strings.Replace(winBridge, `"1.0.0"`, `"`+c.version+`"`, 1)), 0o644))
		if c.away {
			must(w.t, os.Rename(ipam, ipam+".away"))
		}
		r, err := w.runtime.Status(w.ctx, &runtimeapi.StatusRequest{})
		must(w.t, err)
		if c.away {
			must(w.t, os.Rename(ipam+".away", ipam))
		}

		for _, condition := range r.GetStatus().GetConditions() {
			if condition.Type == runtimeapi.NetworkReady && (condition.Status != (c.want == "") || !strings.Contains(condition.Message, c.want)) {
				w.t.Errorf("version %s, host-local away: %v: %v", c.version, c.away, condition)
			}
		}
	}
	must(w.t, os.WriteFile(conf, []byte(winBridge), 0o644))
}

// namespaceFaults: calls for the HCN namespace of a pod fail, on the way in and on the way out. A pod without network is refused, a
// pod whose namespace stays is not gone for its client, and in the end there is no namespace.
func namespaceFaults(w *world) {
	w.t.Helper()
	lost := int(hnsd.ErrCallFailed.Code)
	for _, f := range []struct {
		name  string
		rule  map[string]any
		fails bool // RunPodSandbox
	}{
		{"create", map[string]any{"function": "HcnCreateNamespace", "action": "fail", "code": lost, "times": 1}, true},
		{"answer", map[string]any{"function": "HcnCreateNamespace", "action": "after", "code": lost, "times": 1}, true},
		{"delete", map[string]any{"function": "HcnDeleteNamespace", "action": "fail", "code": lost, "times": 2}, false},
		{"away", nil, false},
	} {
		rules := []any{}
		if f.rule != nil {
			rules = append(rules, f.rule)
		}
		must(w.t, control.Host(w.dir).Call(w.ctx, "POST", "/faults", rules, nil))
		config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: f.name, Namespace: "default", Uid: f.name}}
		r, err := w.runtime.RunPodSandbox(w.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
		if f.fails != (err != nil) {
			w.t.Errorf("%s: running a pod: %v", f.name, err)
		}
		if err == nil {
			stopStubborn(w, f.name, r.PodSandboxId, f.rule == nil)
		}

		var seen []struct{ Hits int }
		must(w.t, control.Host(w.dir).Call(w.ctx, "GET", "/faults", nil, &seen))
		if len(seen) > 0 && seen[0].Hits == 0 {
			w.t.Errorf("%s: no call was hit", f.name)
		}
		must(w.t, control.Host(w.dir).Call(w.ctx, "POST", "/faults", []any{}, nil))
		wait.NoError(w.t, 20*time.Second, "no namespace of a pod to be left", func() error {
			if left := guests(w); len(left) > 0 {
				return fmt.Errorf("%s: left: %v", f.name, left)
			}
			return nil
		})
	}
}

// stopStubborn stops a pod whose namespace cannot be deleted at first, because calls fail or, with away, HNS is stopped.
func stopStubborn(w *world, name, id string, away bool) {
	w.t.Helper()
	if away {
		must(w.t, control.Host(w.dir).Call(w.ctx, "POST", "/service", serve.ServiceRequest{State: "stopped"}, nil))
	}
	if _, err := w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err == nil {
		w.t.Errorf("%s: the pod was stopped although its namespace stays", name)
	}
	if away {
		must(w.t, control.Host(w.dir).Call(w.ctx, "POST", "/service", serve.ServiceRequest{State: "running"}, nil))
	}
	wait.NoError(w.t, 20*time.Second, "the pod to stop", func() error {
		_, err := w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		return err
	})
	_, err := w.runtime.RemovePodSandbox(w.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	must(w.t, err)
}

// guests lists the HCN namespaces of pods.
func guests(w *world) (ids []string) {
	w.t.Helper()
	var dump serve.Dump
	must(w.t, control.Host(w.dir).Call(w.ctx, "GET", "/dump", nil, &dump))
	for _, n := range dump.Namespaces {
		if n["Type"] != "HostDefault" {
			ids = append(ids, fmt.Sprint(n["ID"]))
		}
	}
	return ids
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
	if made := guests(w); len(made) != 0 {
		w.t.Errorf("namespaces were made while HNS was stopped: %v", made)
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
