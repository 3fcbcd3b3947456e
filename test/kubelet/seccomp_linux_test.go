package kubelet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// setsName is an environment variable. This test program, started with it, sets the host name to its value and prints
// the new name or the error.
const setsName = "PORTHOLE_TEST_HOST_NAME"

func init() {
	name := os.Getenv(setsName)
	if name == "" {
		return
	}
	if err := syscall.Sethostname([]byte(name)); err != nil {
		fmt.Println(err)
		os.Exit(0)
	}
	fmt.Println(os.Hostname())
	os.Exit(0)
}

// testSandboxSeccomp: a sandbox runs with our seccomp profile. A container with the same profile and CAP_SYS_ADMIN may
// not set its host name; one without a profile may. When the runtime cannot read the file, sandboxes run with the
// runtime's profile.
func testSandboxSeccomp(t *testing.T, w *world) {
	const file = "porthole/sandbox.json" // below the folder of the node's profiles
	path := filepath.Join(w.KubeletRoot(node), "seccomp", file)
	w.create(t, newPod("quiet", "sleep"))
	ran := w.until(t, 30*time.Second, "quiet", ready)
	if action, mode := sandboxFilter(t, w, ran); action != "SCMP_ACT_ALLOW" || mode != "2" {
		t.Errorf("the sandbox has a filter with the default %s, and the kernel says mode %s", action, mode)
	}

	program := v1.HostPathFile
	for name, want := range map[string]string{file: "operation not permitted", "": "renamed <nil>"} {
		p := newPod("named")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Volumes = []v1.Volume{{Name: "program",
			VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: os.Args[0], Type: &program}}}}
		c := &p.Spec.Containers[0]
		c.Command, c.Env = []string{"/program"}, []v1.EnvVar{{Name: setsName, Value: "renamed"}}
		c.VolumeMounts = []v1.VolumeMount{{Name: "program", MountPath: "/program"}}
		profile := &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
		if name != "" {
			profile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}
		}
		c.SecurityContext = &v1.SecurityContext{SeccompProfile: profile,
			Capabilities: &v1.Capabilities{Add: []v1.Capability{"SYS_ADMIN"}}}

		w.create(t, p)
		done := w.until(t, 30*time.Second, "named", inPhase(v1.PodSucceeded))
		if got := w.log(t, done, "app"); !strings.Contains(got, want) {
			t.Errorf("with profile %q setting the host name says %q, want %q", name, got, want)
		}
		w.remove(t, "named", nil)
		w.untilGone(t, "named")
	}

	must(t, os.Remove(path))
	w.create(t, newPod("other", "sleep"))
	ran = w.until(t, 60*time.Second, "other", ready)
	if action, mode := sandboxFilter(t, w, ran); action != "SCMP_ACT_ERRNO" || mode != "2" {
		t.Errorf(
			"after the runtime's refusal the sandbox has a filter with the default %s, and the kernel says mode %s",
			action, mode)
	}
	for _, name := range []string{"quiet", "other"} {
		w.remove(t, name, nil)
	}
	w.kubelet.Stop()
	w.startKubelet() // writes the profile again
}

// sandboxFilter returns the default action of the seccomp filter of a pod's sandbox, by the runtime, and the mode of
// its process, by the kernel.
func sandboxFilter(t *testing.T, w *world, p *v1.Pod) (action, mode string) {
	t.Helper()
	boxes, err := w.Runtime.ListPodSandbox(w.ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}}})
	must(t, err)
	if len(boxes.Items) != 1 {
		t.Fatalf("pod %s has %d sandboxes", p.Name, len(boxes.Items))
	}
	st, err := w.Runtime.PodSandboxStatus(w.ctx,
		&cri.PodSandboxStatusRequest{PodSandboxId: boxes.Items[0].Id, Verbose: true})
	must(t, err)

	var info struct {
		Pid  int `json:"pid"`
		Spec struct {
			Linux struct {
				Seccomp struct{ DefaultAction string }
			}
		} `json:"runtimeSpec"`
	}
	must(t, json.Unmarshal([]byte(st.Info["info"]), &info))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", info.Pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			mode = strings.TrimSpace(value)
		}
	}
	return info.Spec.Linux.Seccomp.DefaultAction, mode
}
