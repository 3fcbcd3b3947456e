package cri_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// othersPlugins gives the host configurations of other plugins, whose programs write down what they are called with: each gets its
// part of the file as it is, with what every runtime adds.
func othersPlugins(w *world) {
	w.t.Helper()
	bin, conf := filepath.Join(w.driveC(), "opt/cni/bin"), filepath.Join(w.driveC(), "etc/cni/net.d")
	ours := filepath.Join(conf, "10-porthole.conf")
	kept, err := os.ReadFile(ours)
	must(w.t, err)
	must(w.t, os.Remove(ours))
	recorder, err := os.ReadFile(filepath.Join(bin, "nullcni.exe"))
	must(w.t, err)

	for _, name := range []string{"azure-vnet.conflist", "calico.conf", "kube-ovn.conflist"} {
		text, err := os.ReadFile(filepath.Join("../../cni/contract/testdata", name))
		must(w.t, err)
		plugin, _, _ := strings.Cut(name, ".")
		must(w.t, os.WriteFile(filepath.Join(bin, plugin+".exe"), recorder, 0o755))
		must(w.t, os.WriteFile(filepath.Join(conf, "10-"+name), text, 0o644))
		log := filepath.Join(w.driveC(), "nullcni.log")
		_ = os.Remove(log) // there may be none

		p := w.runPod("others")
		calls, err := os.ReadFile(log)
		must(w.t, err)
		untouched(w, name, text, calls)
		_, err = w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
		must(w.t, err)
		_, err = w.runtime.RemovePodSandbox(w.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
		must(w.t, err)
		must(w.t, os.Remove(filepath.Join(conf, "10-"+name)))
	}
	must(w.t, os.WriteFile(ours, kept, 0o644))
}

// untouched compares what a plugin was called with and its part of the file.
func untouched(w *world, name string, file, calls []byte) {
	w.t.Helper()
	var list struct{ Plugins []json.RawMessage }
	must(w.t, json.Unmarshal(file, &list))
	part := json.RawMessage(file)
	if len(list.Plugins) > 0 {
		part = list.Plugins[0]
	}
	var want, got map[string]json.RawMessage
	must(w.t, json.Unmarshal(part, &want))
	words := bytes.SplitN(calls, []byte(" "), 3) // ADD, namespace, configuration
	if len(words) < 3 || string(words[0]) != "ADD" {
		w.t.Fatalf("%s: calls %s", name, calls)
	}
	must(w.t, json.NewDecoder(bytes.NewReader(words[2])).Decode(&got))

	for key, value := range want {
		if key != "capabilities" && compacted(w, value) != compacted(w, got[key]) {
			w.t.Errorf("%s: %s is %s, in the file %s", name, key, got[key], value)
		}
	}
	for key := range got {
		if want[key] == nil && !slices.Contains([]string{"name", "cniVersion", "runtimeConfig"}, key) {
			w.t.Errorf("%s: %s was added: %s", name, key, got[key])
		}
	}
}

func compacted(w *world, value json.RawMessage) string {
	if value == nil {
		return "absent"
	}
	var b bytes.Buffer
	must(w.t, json.Compact(&b, value))
	return b.String()
}
