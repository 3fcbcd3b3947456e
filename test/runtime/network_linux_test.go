package runtime

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/internal/testkit/wait"
)

// networkCases are the ways in which the network of a pod may come to be.
type networkCases struct{ containers }

// testNetwork has calls for the network of a pod fail, and gives the host configurations of other plugins.
func (w networkCases) testNetwork(t *testing.T) {
	t.Run("STATUS", w.testPluginStatus)
	t.Run("namespace", w.testNamespaceFaults)
	t.Run("other plugins", w.testOtherPlugins)
	w.testNothingLeft(t)
}

// hns is the control interface of the host's HNS.
func (w networkCases) hns(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	check(t, control.Host(filepath.Join(w.dir, "hosts", w.name)).Call(call(t), method, path, body, answer))
}

// testPluginStatus takes host-local.exe away, which win-bridge asks at STATUS: the network is ready as far as a
// configuration of version 1.0.0 knows, and not ready, with the plugin's words, by one of version 1.1.0.
func (w networkCases) testPluginStatus(t *testing.T) {
	ipam := filepath.Join(w.driveC(), "opt/cni/bin/host-local.exe")
	configure := func(version string) {
		w.write("etc/cni/net.d/10-porthole.conf", strings.Replace(winBridge, `"1.0.0"`, `"`+version+`"`, 1))
	}
	defer configure("1.0.0")
	for _, c := range []struct {
		version string
		away    bool
		want    string // the reason why the network is not ready
	}{{"1.1.0", false, ""}, {"1.1.0", true, "host-local"}, {"1.0.0", true, ""}} {
		configure(c.version)
		if c.away {
			check(t, os.Rename(ipam, ipam+".away"))
		}
		// containerd watches the folder
		wait.True(t, 30*time.Second, "the network to be as version "+c.version+" says", func() bool {
			ok, text := w.condition(t, runtimeapi.NetworkReady)
			return ok == (c.want == "") && strings.Contains(text, c.want)
		})
		if c.away {
			check(t, os.Rename(ipam+".away", ipam))
		}
	}
}

// testNamespaceFaults: calls for the HCN namespace of a pod fail, on the way in and on the way out. A pod without
// network is refused, a pod whose namespace stays is not gone for its client, and in the end there is no namespace.
func (w networkCases) testNamespaceFaults(t *testing.T) {
	lost := int(hnsd.ErrCallFailed.Code)
	for _, f := range []struct {
		name  string
		rule  map[string]any
		fails bool // RunPodSandbox
	}{
		{"create", map[string]any{"function": "HcnCreateNamespace", "action": "fail", "code": lost, "times": 1}, true},
		{"delete", map[string]any{"function": "HcnDeleteNamespace", "action": "fail", "code": lost, "times": 2}, false},
		{"away", nil, false},
	} {
		rules := []any{}
		if f.rule != nil {
			rules = append(rules, f.rule)
		}
		w.hns(t, "POST", "/faults", rules, nil)

		config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: f.name,
			Namespace: "default", Uid: f.name}, Windows: &runtimeapi.WindowsPodSandboxConfig{}}
		r, err := w.runtime.RunPodSandbox(call(t), &runtimeapi.RunPodSandboxRequest{Config: config})
		if f.fails != (err != nil) {
			t.Errorf("%s: running a pod: %v", f.name, err)
		}
		if err == nil {
			w.stopStubborn(t, f.name, r.PodSandboxId, f.rule == nil)
		}

		w.hns(t, "POST", "/faults", []any{}, nil)
		wait.True(t, 30*time.Second, f.name+": no namespace of a pod to be left",
			func() bool { return len(w.guests(t)) == 0 })
	}
}

// stopStubborn stops a pod whose namespace cannot be deleted at first, because calls fail or, with away, HNS is
// stopped.
func (w networkCases) stopStubborn(t *testing.T, name, id string, away bool) {
	t.Helper()
	if away {
		w.hns(t, "POST", "/service", serve.ServiceRequest{State: "stopped"}, nil)
	}
	if _, err := w.runtime.StopPodSandbox(call(t), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err == nil {
		t.Errorf("%s: the pod was stopped although its namespace stays", name)
	}
	if away {
		w.hns(t, "POST", "/service", serve.ServiceRequest{State: "running"}, nil)
	}
	wait.True(t, time.Minute, name+" to stop", func() bool { return w.removePod(pod{id: id}) == nil })
}

// guests lists the HCN namespaces of pods.
func (w networkCases) guests(t *testing.T) (ids []any) {
	t.Helper()
	var dump serve.Dump
	w.hns(t, "GET", "/dump", nil, &dump)
	for _, n := range dump.Namespaces {
		if n["Type"] != "HostDefault" {
			ids = append(ids, n["ID"])
		}
	}
	return ids
}

// testOtherPlugins gives the host configurations of other plugins, whose programs write down what they are called
// with: each gets its part of the file as it is, with what every runtime adds.
func (w networkCases) testOtherPlugins(t *testing.T) {
	bin, conf := filepath.Join(w.driveC(), "opt/cni/bin"), filepath.Join(w.driveC(), "etc/cni/net.d")
	recorder := filepath.Join(bin, "recorder.exe")
	command(t, forWindows, "go", "build", "-o", recorder, "./testdata/recorder")
	program, err := os.ReadFile(recorder)
	check(t, err)
	check(t, os.Remove(filepath.Join(conf, "10-porthole.conf")))
	defer w.write("etc/cni/net.d/10-porthole.conf", winBridge)

	for _, name := range []string{"azure-vnet.conflist", "calico.conf", "kube-ovn.conflist"} {
		text, err := os.ReadFile(filepath.Join("../../cni/contract/testdata", name))
		check(t, err)
		plugin, _, _ := strings.Cut(name, ".")
		check(t, os.WriteFile(filepath.Join(bin, plugin+".exe"), program, 0o755))
		w.write("etc/cni/net.d/10-"+name, string(text))
		log := filepath.Join(w.driveC(), "cni-calls.log")
		_ = os.Remove(log) // there may be none
		wait.True(t, 30*time.Second, "containerd to have read "+name, func() bool {
			ok, _ := w.condition(t, runtimeapi.NetworkReady)
			return ok && strings.Contains(w.cniConfig(t), plugin)
		})

		check(t, w.removePod(w.runPod(t, "others")))
		calls, err := os.ReadFile(log)
		check(t, err)
		untouched(t, name, text, calls)
		check(t, os.Remove(filepath.Join(conf, "10-"+name)))
	}
}

// cniConfig is the configuration of CNI that containerd says it has.
func (w networkCases) cniConfig(t *testing.T) string {
	t.Helper()
	r, err := w.runtime.Status(call(t), &runtimeapi.StatusRequest{Verbose: true})
	check(t, err)
	return r.Info["cniconfig"]
}

// untouched compares what a plugin was called with and its part of the file.
func untouched(t *testing.T, name string, file, calls []byte) {
	t.Helper()
	var list struct{ Plugins []json.RawMessage }
	check(t, json.Unmarshal(file, &list))
	part := json.RawMessage(file)
	if len(list.Plugins) > 0 {
		part = list.Plugins[0]
	}
	var want, got map[string]json.RawMessage
	check(t, json.Unmarshal(part, &want))
	words := bytes.SplitN(calls, []byte(" "), 2) // ADD, configuration
	if len(words) < 2 || string(words[0]) != "ADD" {
		t.Fatalf("%s: calls %s", name, calls)
	}
	check(t, json.NewDecoder(bytes.NewReader(words[1])).Decode(&got))

	for key, value := range want {
		if key != "capabilities" && sorted(t, value) != sorted(t, got[key]) {
			t.Errorf("%s: %s is %s, in the file %s", name, key, got[key], value)
		}
	}
	for key := range got {
		if want[key] == nil && !slices.Contains([]string{"name", "cniVersion", "runtimeConfig"}, key) {
			t.Errorf("%s: %s was added: %s", name, key, got[key])
		}
	}
}

// sorted is a document with its fields in the order of their names, in which containerd writes them.
func sorted(t *testing.T, value json.RawMessage) string {
	t.Helper()
	if value == nil {
		return "absent"
	}
	var v any
	check(t, json.Unmarshal(value, &v))
	text, err := json.Marshal(v)
	check(t, err)
	return string(text)
}
