package kubeletconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

var node = Node{Root: `C:\`, RuntimeEndpoint: "npipe:////./pipe/containerd-containerd"}

// head is what each configuration begins with; what follows is added by every conversion.
const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

var always = []string{
	`containerRuntimeEndpoint: "npipe:////./pipe/containerd-containerd" added: ` + ownRuntime,
	`podLogsDir: "C:\\var\\log\\pods" added: ` + rooted,
	`resolvConf: "Host" added: ` + hostDNS,
}

// TestOfKubeadm converts what `kubeadm init` 1.36.3 writes, with the fields that administrators add for Linux.
func TestOfKubeadm(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "kubeadm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out, changes, err := ForWindows(text, node)
	if err != nil {
		t.Fatal(err)
	}

	var got strings.Builder
	got.WriteString("# " + strings.ReplaceAll(strings.TrimSpace(lines(changes)), "\n", "\n# ") + "\n")
	got.Write(out)
	golden := filepath.Join("testdata", "windows.yaml")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got.String() != string(want) {
		t.Errorf("%v; UPDATE=1 rewrites %s:\n%s", err, golden, got.String())
	}

	again, changes, err := ForWindows(out, node)
	if err != nil || len(changes) > 0 || string(again) != string(out) {
		t.Errorf("a second conversion changes: %v, %v", changes, err)
	}
}

func lines(changes []Change) string {
	var all strings.Builder
	for _, c := range changes {
		all.WriteString(c.String() + "\n")
	}
	return all.String()
}

func TestFields(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string // beside always
	}{
		"nothing set":       {"", nil},
		"a path of Windows": {"staticPodPath: D:\\pods\n", nil},
		"a relative path":   {"tlsCertFile: pki/kubelet.crt\n", nil},
		"a network path":    {"volumePluginDir: //server/share\n", nil},
		"an empty path":     {"staticPodPath: \"\"\n", nil},
		"a folder": {"staticPodPath: /etc/kubernetes/manifests/\n",
			[]string{`staticPodPath: "/etc/kubernetes/manifests/" changed to "C:\\etc\\kubernetes\\manifests": ` +
				rooted}},
		"a field that nobody knows": {"anything: {a: [1, 2]}\n", nil},
		"memory in percent":         {"evictionHard: {memory.available: 5%}\n", nil},
		"enough memory":             {"evictionHard: {memory.available: 1Gi}\n", nil},
		"little memory": {"evictionHard: {memory.available: 100Mi, pid.available: 10%}\n",
			[]string{`evictionHard.memory.available: "100Mi" changed to "500Mi": ` + leastMemory,
				`evictionHard.pid.available: "10%" removed: ` + linuxSignals}},
		"an image service": {"imageServiceEndpoint: unix:///run/x.sock\n",
			[]string{`imageServiceEndpoint: "unix:///run/x.sock" removed: ` + ownRuntime}},
	} {
		_, changes, err := ForWindows([]byte(head+c.text), node)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}

		var got []string
		for _, change := range changes {
			if line := change.String(); !slices.Contains(always, line) {
				got = append(got, line)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, c.want)
		}
	}
}

// TestOtherResolvers: "" and another root are the administrator's choice.
func TestOtherResolvers(t *testing.T) {
	_, changes, err := ForWindows([]byte(head+"resolvConf: \"\"\npodLogsDir: /var/log/pods\n"),
		Node{Root: `D:\kube`, RuntimeEndpoint: "tcp://127.0.0.1:1"})
	want := "containerRuntimeEndpoint: \"tcp://127.0.0.1:1\" added: " + ownRuntime +
		"\npodLogsDir: \"/var/log/pods\" changed to \"D:\\\\kube\\\\var\\\\log\\\\pods\": " + rooted + "\n"
	if got := lines(changes); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{"kind: Pod": `its kind is "Pod"`, "": `its kind is ""`,
		"a: [": "line 1"} {
		if _, _, err := ForWindows([]byte(text), node); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := ForWindows([]byte(head), Node{Root: `C:\`}); err == nil {
		t.Error("no endpoint is taken")
	}
}

// TestKnownFields: each name here is a field of the API, and no field with a path in its name is forgotten.
func TestKnownFields(t *testing.T) {
	known := map[string]bool{}
	of := reflect.TypeFor[v1beta1.KubeletConfiguration]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		known[name] = true
		for _, part := range []string{"Path", "Dir", "File"} {
			if strings.HasSuffix(name, part) && !slices.Contains(paths, name) {
				t.Errorf("%s may be a path, and is not converted", name)
			}
		}
		if strings.Contains(strings.ToLower(name), "cgroup") && removed[name] == "" {
			t.Errorf("%s stays", name)
		}
	}

	for name := range removed {
		if !known[name] {
			t.Errorf("%s is no field of a KubeletConfiguration", name)
		}
	}
	for _, name := range paths {
		if first, _, _ := strings.Cut(name, "."); !known[first] {
			t.Errorf("%s is no field of a KubeletConfiguration", name)
		}
	}
}

// TestDecodes: the API's own type takes the outcome.
func TestDecodes(t *testing.T) {
	out, _, err := ForWindows([]byte(head+"maxPods: 50\n"), node)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON(out)
	if err != nil {
		t.Fatal(err)
	}
	var c v1beta1.KubeletConfiguration
	if err := json.Unmarshal(text, &c); err != nil || c.MaxPods != 50 || c.PodLogsDir != `C:\var\log\pods` ||
		*c.ResolverConfig != "Host" {
		t.Errorf("%v: %+v", err, c)
	}
}
