package lab

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// images runs `porthole images` for the lab's cluster. The error has what it wrote.
func images(args ...string) (string, error) {
	return command(2*time.Minute, porthole, append(append([]string{"images"}, args...), "--dir", dir)...)
}

// checked is what `porthole images check -o json` says.
type checked []struct {
	Hosts []struct {
		Node    string
		Build   int
		Outcome string
		Rule    string
		Source  string
	}
}

// TestImagesWithoutARegistry: an archive, made from the registry for a build, brings an image to a node under a name
// that the node has not pulled; an archive for another build is refused by name.
// Row 1.121.
func TestImagesWithoutARegistry(t *testing.T) {
	out, err := images("check", "porthole/testapp:1", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var all checked
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || len(all[0].Hosts) != 2 {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, h := range all[0].Hosts {
		if h.Outcome != "runs" || h.Build == 0 || h.Rule == "" || h.Source == "" {
			t.Errorf("node %+v", h)
		}
	}
	if out, err := images("check", "porthole/testapp:1709"); err == nil ||
		!strings.Contains(err.Error(), "16299 (Windows Server, version 1709)") ||
		!strings.Contains(err.Error(), "does not run") {
		t.Errorf("an image that no node runs: %v\n%s", err, out)
	}

	const image = "porthole/testapp:ltsc2022"
	archive := filepath.Join(t.TempDir(), "app.tar")
	for _, args := range [][]string{
		{"export", image, "--build", "20348", "--output", archive, "--dry-run"},
		{"export", image, "--build", "20348", "--output", archive},
		{"import", archive, "--node", "win01", "--dry-run"},
	} {
		if out, err := images(args...); err != nil || !strings.Contains(out, "20348 (Windows Server 2022)") {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	run := func(name string) { envPod(t, name, image, "", "Never") }
	run("before-import")
	waitEvent(t, "before-import", "is not present with pull policy of Never")
	if out, err := images("import", archive, "--node", "win01"); err != nil ||
		!strings.Contains(out, "imported docker.io/"+image) {
		t.Fatalf("%v\n%s", err, out)
	}
	run("after-import")
	wantRun(t, "after-import", "20348")

	other := filepath.Join(t.TempDir(), "old.tar")
	if _, err := images("export", "porthole/testapp:ltsc2019", "--build", "ltsc2019", "--output", other); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"import", other, "--node", "win01"},
		{"export", "porthole/testapp:ltsc2019", "--build", "ltsc2022", "--output", other},
	} {
		if _, err := images(args...); err == nil ||
			!strings.Contains(err.Error(), "image docker.io/porthole/testapp:ltsc2019 has nothing for build 20348") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestMixedBuilds: in a cluster whose nodes have different builds, each image runs where the table says, and an event
// names these nodes. `make test-builds` makes such a cluster.
// Rows 1.08, 1.101.
func TestMixedBuilds(t *testing.T) {
	builds := kubectl(t, "get", "nodes", "-l", "kubernetes.io/os=windows", "-o",
		`jsonpath={.items[*].metadata.labels.node\.kubernetes\.io/windows-build}`)
	if builds != "10.0.20348 10.0.26100" {
		t.Skipf("the nodes have the builds %s; `make test-builds` makes a cluster of 20348 and 26100", builds)
	}

	for tag, want := range map[string]string{"ltsc2019": "does not run, does not run", "ltsc2022": "runs, runs",
		"ltsc2025": "does not run, runs"} {
		out, err := images("check", "porthole/testapp:"+tag, "-o", "json")
		var all checked
		if json.Unmarshal([]byte(out), &all) != nil || len(all) != 1 || len(all[0].Hosts) != 2 {
			t.Fatalf("%s: %v\n%s", tag, err, out)
		}
		if got := all[0].Hosts[0].Outcome + ", " + all[0].Hosts[1].Outcome; got != want ||
			(err == nil) != !strings.Contains(want, "not") {
			t.Errorf("%s: %s, %v, want %s", tag, got, err, want)
		}
	}

	for pod, at := range map[string]struct{ node, tag string }{"new-on-old": {"win01", "ltsc2025"},
		"old-on-new": {"win02", "ltsc2022"}, "older-on-new": {"win02", "ltsc2019"}} {
		apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  restartPolicy: Never
  containers: [{name: app, image: "porthole/testapp:%s", args: [env]}]
`, pod, at.node, at.tag))
	}
	waitEvent(t, "new-on-old", "it was not pulled", "26100 (Windows Server 2025)", "node win01", "runs in no isolation",
		"nodes that run it: win02 (build 26100)")
	waitEvent(t, "older-on-new", "it was not pulled", "17763 (Windows Server 2019)", "needs Hyper-V isolation",
		"no Windows node of the cluster runs it")
	wait.NoError(t, podWait, "an image of 2022 runs on 2025", func() error {
		phase, err := kubectlErr("get", "pod", "old-on-new", "-o", "jsonpath={.status.phase}")
		if err == nil && phase != "Succeeded" {
			err = fmt.Errorf("phase %s", phase)
		}
		return err
	})
	if out := kubectl(t, "logs", "old-on-new"); !strings.Contains(out, "PORTHOLE_IMAGE_BUILD=10.0.20348.") {
		t.Errorf("log:\n%s", out)
	}
}

// variantByItself matches what the kubelet says of an image whose index has older variants only.
// envPod makes a pod on win01 that prints its environment. class is its RuntimeClass; "" for none.
func envPod(t *testing.T, name, image, class, pull string) {
	t.Helper()
	if class != "" {
		class = "runtimeClassName: " + class
	}
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: win01
  restartPolicy: Never
  %s
  containers: [{name: app, image: %q, imagePullPolicy: %s, args: [env]}]
`, name, class, image, pull))
}

// wantRun waits until a pod has printed its environment, and checks of which build its image is.
func wantRun(t *testing.T, name, build string) {
	t.Helper()
	waitPod(t, name, podWait, func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodSucceeded {
			return fmt.Errorf("phase %s", p.Status.Phase)
		}
		return nil
	})
	if out := kubectl(t, "logs", name); !strings.Contains(out, "PORTHOLE_IMAGE_BUILD=10.0."+build+".") {
		t.Errorf("log of %s:\n%s", name, out)
	}
}

var variantByItself = regexp.MustCompile(`by itself, (porthole/testapp@sha256:[0-9a-f]{64})`)

// TestHyperVHandler: an image of an older build than the host's runs with a RuntimeClass of the handler for Hyper-V
// isolation, is refused without, and what the emulated host does not isolate is said. Of an index containerd takes
// nothing older: the kubelet says what to name.
// Row 1.99.
func TestHyperVHandler(t *testing.T) {
	pod := func(name, class, image string) { envPod(t, name, image, class, "IfNotPresent") }
	apply(t, `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: hyperv}
handler: runhcs-wcow-hypervisor
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: process}
handler: runhcs-wcow-process
`)
	t.Cleanup(func() { kubectl(t, "delete", "runtimeclass", "hyperv", "process") })

	pod("older-of-index", "hyperv", "porthole/testapp:ltsc2019")
	waitEvent(t, "older-of-index", "no match for platform in manifest", "name the variant windows/amd64 10.0.17763",
		"by itself")
	said := variantByItself.FindStringSubmatch(kubectl(t, "get", "events", "--field-selector",
		"involvedObject.name=older-of-index", "-o", "jsonpath={.items[*].message}"))
	if said == nil {
		t.Fatal("no event names the variant")
	}

	pod("older-by-process", "process", said[1])
	waitEvent(t, "older-by-process", "it was not pulled", "needs Hyper-V isolation",
		"a RuntimeClass with the handler runhcs-wcow-hypervisor gives it")
	pod("older-by-hyperv", "hyperv", said[1])
	wantRun(t, "older-by-hyperv", "17763")

	out, err := command(time.Minute, porthole, "status", "--dir", dir)
	if err != nil || !strings.Contains(out,
		"win01: pods with the handler runhcs-wcow-hypervisor are not isolated by Hyper-V here") {
		t.Errorf("status: %v\n%s", err, out)
	}
}
