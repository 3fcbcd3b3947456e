package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// lifecycle has the tests of single pods. They run in parallel.
var lifecycle = map[string]func(*testing.T, *world){
	"hooks":               testHooks,
	"last words":          testLastWords,
	"readiness":           testReadiness,
	"ephemeral container": testEphemeral,
	"image volume":        testImageVolume,
}

func exec(args ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: append([]string{"/testapp"}, args...)}}
}

// hooked returns a pod that has a folder of the node at /out, and this folder.
func (w *world) hooked(t *testing.T, name string, args ...string) (*v1.Pod, string) {
	t.Helper()
	dir := w.Path("out", name)
	must(t, os.MkdirAll(dir, 0o777))
	p := newPod(name, args...)
	p.Spec.Volumes = []v1.Volume{{Name: "out",
		VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "out", MountPath: "/out"}}
	return p, dir
}

// gone waits until the API has no such pod, and returns how long that took.
func (w *world) gone(t *testing.T, name string, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	must(t, wait.For(w.ctx, limit, "pod "+name+" to be gone", func(c context.Context) error {
		_, err := w.Client.CoreV1().Pods(namespace).Get(c, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	}))
	return time.Since(began)
}

// event waits for an event about a pod with text in its message.
func (w *world) event(t *testing.T, pod, reason, text string) {
	t.Helper()
	must(t, wait.For(w.ctx, 30*time.Second, "event "+reason+" of pod "+pod, func(c context.Context) error {
		list, err := w.Client.CoreV1().Events(namespace).
			List(c, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			all = append(all, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are only\n%s", strings.Join(all, "\n"))
	}))
}

// testHooks: while postStart runs the container does not count as started and the next one waits; preStop runs before
// the container is stopped.
func testHooks(t *testing.T, w *world) {
	p, dir := w.hooked(t, "hooks", "sleep")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}},
		PreStop: exec("write", "/out/stop", "bye")}
	grace := int64(20)
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.Containers = append(p.Spec.Containers, container("second", "sleep"))
	made := w.create(t, p)
	up := w.until(t, 30*time.Second, "hooks", ready)
	first, second := up.Status.ContainerStatuses[0].State.Running, up.Status.ContainerStatuses[1].State.Running
	if d := second.StartedAt.Sub(first.StartedAt.Time); d < 2*time.Second {
		t.Errorf("the second container started %v after the first, whose hook takes 3 s", d)
	}
	if d := time.Since(made.CreationTimestamp.Time); d < 3*time.Second {
		t.Errorf("Ready after %v, before the hook was done", d)
	}
	w.remove(t, "hooks", nil)
	w.gone(t, "hooks", 20*time.Second)
	if data, err := os.ReadFile(filepath.Join(dir, "stop")); err != nil || !strings.HasPrefix(string(data), "bye") {
		t.Errorf("the preStop hook left %q, %v", data, err)
	}
	w.event(t, "hooks", "Killing", "Stopping container app")
}

// testLastWords: the termination message is that of the file, or the end of the log after an error if the policy says
// so.
func testLastWords(t *testing.T, w *world) {
	p := newPod("words", "write", "/dev/termination-log", "from", "file")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	loud, silent := container("loud", "nonsense"), container("silent", "nonsense")
	loud.TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	p.Spec.Containers = append(p.Spec.Containers, loud, silent)
	w.create(t, p)

	done := w.until(t, 30*time.Second, "words", inPhase(v1.PodFailed))
	message := func(name string) string {
		for _, c := range done.Status.ContainerStatuses {
			if c.Name == name && c.State.Terminated != nil {
				return c.State.Terminated.Message
			}
		}
		t.Fatalf("container %s has not ended: %s", name, statusText(done))
		return ""
	}

	if got := strings.TrimSpace(message("app")); got != "from file" {
		t.Errorf("message %q, want what the file holds", got)
	}
	if got := message("loud"); !strings.Contains(got, `testapp: no command "nonsense"`) {
		t.Errorf("message %q, want the log", got)
	}
	if got := message("silent"); got != "" {
		t.Errorf("message %q, want none", got)
	}
	w.remove(t, "words", nil)
}

// testReadiness: probes by HTTP with a named port, by TCP, and by a command that fails.
func testReadiness(t *testing.T, w *world) {
	p := newPod("probed", "serve", "--http", ":8080", "--tcp", ":7000", "--udp", "")
	web := &p.Spec.Containers[0]
	web.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	web.StartupProbe = &v1.Probe{PeriodSeconds: 1,
		ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(7000)}}}
	web.ReadinessProbe = &v1.Probe{PeriodSeconds: 1,
		ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("web")}}}
	w.create(t, p)
	w.until(t, 30*time.Second, "probed", ready)
	never := newPod("unready", "sleep")
	never.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1,
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/testapp", "exit", "1"}}}}
	w.create(t, never)
	w.event(t, "unready", "Unhealthy", "Readiness probe failed")
	got := w.until(t, 10*time.Second, "unready", inPhase(v1.PodRunning))
	if ready(got) == nil || got.Status.ContainerStatuses[0].RestartCount != 0 ||
		!*got.Status.ContainerStatuses[0].Started {
		t.Errorf("it is %s", statusText(got))
	}
	w.remove(t, "probed", nil)
	w.remove(t, "unready", nil)
}

// testEphemeral: an ephemeral container runs once in a running pod.
func testEphemeral(t *testing.T, w *world) {
	w.create(t, newPod("joined", "sleep"))
	up := w.until(t, 20*time.Second, "joined", ready)
	up.Spec.EphemeralContainers = []v1.EphemeralContainer{{TargetContainerName: "app",
		EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Name: "debug", Image: testkit.TestImage, Args: []string{"cat", "/proc/1/cmdline"},
			TerminationMessagePolicy: v1.TerminationMessageReadFile}}}
	_, err := w.Client.CoreV1().Pods(namespace).UpdateEphemeralContainers(w.ctx, "joined", up, metav1.UpdateOptions{})
	must(t, err)
	done := w.until(t, 20*time.Second, "joined", func(p *v1.Pod) error {
		for _, c := range p.Status.EphemeralContainerStatuses {
			if c.State.Terminated != nil {
				return nil
			}
		}
		return fmt.Errorf("it has not ended: %+v", p.Status.EphemeralContainerStatuses)
	})
	if got := w.log(t, done, "debug"); !strings.Contains(got, "sleep") || ready(done) != nil {
		t.Errorf("process 1 of its target is %q; %s", got, statusText(done))
	}
	w.remove(t, "joined", nil)
}

// testImageVolume: a volume has the files of an image.
func testImageVolume(t *testing.T, w *world) {
	p := newPod("imaged", "ls", "/img")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.Volumes = []v1.Volume{{Name: "img",
		VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: testkit.TestImage}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "img", MountPath: "/img"}}
	w.create(t, p)
	done := w.until(t, 20*time.Second, "imaged", inPhase(v1.PodSucceeded))
	if got := w.log(t, done, "app"); !strings.Contains(got, "testapp") {
		t.Errorf("the volume holds %q", got)
	}
	w.remove(t, "imaged", nil)
}
