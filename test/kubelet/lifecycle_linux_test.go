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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// lifecycle are the tests of single pods. They run side by side.
var lifecycle = map[string]func(*testing.T, *world){
	"hooks":                  testHooks,
	"failing postStart":      testBadPostStart,
	"preStop ends early":     testPreStopEnds,
	"grace shrinks":          testGraceShrinks,
	"sidecar":                testSidecar,
	"last words":             testLastWords,
	"liveness":               testLiveness,
	"readiness":              testReadiness,
	"deadline":               testDeadline,
	"failed by another":      testForeignPhase,
	"images that are absent": testAbsentImages,
	"ephemeral container":    testEphemeral,
	"new image":              testNewImage,
	"image volume":           testImageVolume,
}

func exec(args ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: append([]string{"/testapp"}, args...)}}
}

// hooked is a pod with a folder of the node at /out, and that folder.
func (w *world) hooked(t *testing.T, name string, args ...string) (*v1.Pod, string) {
	t.Helper()
	dir := w.Path("out", name)
	must(t, os.MkdirAll(dir, 0o777))
	p := newPod(name, args...)
	p.Spec.Volumes = []v1.Volume{{Name: "out", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}}
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

// event waits for an event about a pod whose message holds text.
func (w *world) event(t *testing.T, pod, reason, text string) {
	t.Helper()
	must(t, wait.For(w.ctx, 30*time.Second, "event "+reason+" of pod "+pod, func(c context.Context) error {
		list, err := w.Client.CoreV1().Events(namespace).List(c, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
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

// testHooks: while postStart runs the container does not count as started and the next one waits; preStop runs before the
// container is told to end.
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

func testBadPostStart(t *testing.T, w *world) {
	p := newPod("badhook", "sleep")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: exec("exit", "3")}
	w.create(t, p)
	w.until(t, 30*time.Second, "badhook", func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount > 0 && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
				return nil
			}
		}
		return fmt.Errorf("not restarted: %s", statusText(p))
	})
	w.event(t, "badhook", "FailedPostStartHook", "PostStartHook failed")
	w.event(t, "badhook", "Killing", "FailedPostStartHook")
	w.remove(t, "badhook", nil)
}

// testPreStopEnds: a hook does not outlive its container.
func testPreStopEnds(t *testing.T, w *world) {
	p := newPod("early", "sleep", "4")
	grace := int64(60)
	p.Spec.TerminationGracePeriodSeconds, p.Spec.RestartPolicy = &grace, v1.RestartPolicyNever
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 40}}}
	w.create(t, p)
	w.until(t, 20*time.Second, "early", ready)
	w.remove(t, "early", nil)
	if d := w.gone(t, "early", 50*time.Second); d > 20*time.Second {
		t.Errorf("gone after %v: the hook of 40 s was waited for", d)
	}
}

// testGraceShrinks: a second deletion with less time cuts the first short.
func testGraceShrinks(t *testing.T, w *world) {
	p := newPod("shrink", "sleep")
	grace, less := int64(50), int64(1)
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 45}}}
	w.create(t, p)
	w.until(t, 20*time.Second, "shrink", ready)
	w.remove(t, "shrink", nil)
	w.event(t, "shrink", "Killing", "Stopping container app")
	w.remove(t, "shrink", &less)
	if d := w.gone(t, "shrink", 60*time.Second); d > 15*time.Second {
		t.Errorf("gone after %v, told to be in one second", d)
	}
}

// testSidecar: it runs before and beside the app, ends after it, and does not decide how the pod ends.
func testSidecar(t *testing.T, w *world) {
	p := newPod("side", "sleep", "2")
	always := v1.ContainerRestartPolicyAlways
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	side := container("proxy", "sleep")
	side.RestartPolicy = &always
	p.Spec.InitContainers = []v1.Container{side}
	w.create(t, p)
	done := w.until(t, 30*time.Second, "side", inPhase(v1.PodSucceeded))
	c, app := done.Status.InitContainerStatuses[0], done.Status.ContainerStatuses[0].State.Terminated
	if c.State.Terminated == nil || app == nil || c.RestartCount != 0 {
		t.Fatalf("sidecar %+v, app %+v", c, app)
	}
	if c.State.Terminated.StartedAt.After(app.StartedAt.Time) || c.State.Terminated.FinishedAt.Time.Before(app.FinishedAt.Time) {
		t.Errorf("sidecar from %v to %v, app from %v to %v", c.State.Terminated.StartedAt, c.State.Terminated.FinishedAt, app.StartedAt, app.FinishedAt)
	}
	w.remove(t, "side", nil)
}

// testLastWords: a message comes from the file, or after an error from the log if that was asked for.
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

// testLiveness: a container that its probe gives up is stopped with the probe's own grace and runs again.
func testLiveness(t *testing.T, w *world) {
	p := newPod("dead", "sleep")
	long, short := int64(120), int64(1)
	p.Spec.TerminationGracePeriodSeconds = &long
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 100}}}
	p.Spec.Containers[0].LivenessProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 2, TerminationGracePeriodSeconds: &short,
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/testapp", "cat", "/absent"}}}}
	w.create(t, p)
	w.until(t, 30*time.Second, "dead", func(p *v1.Pod) error {
		if c := p.Status.ContainerStatuses; len(c) == 0 || c[0].RestartCount == 0 {
			return fmt.Errorf("not restarted: %s", statusText(p))
		}
		return nil
	})
	w.event(t, "dead", "Unhealthy", "Liveness probe failed: ")
	w.event(t, "dead", "Killing", "Container app failed liveness probe, will be restarted")
	w.remove(t, "dead", new(int64))
}

// testReadiness: by HTTP with a named port, by TCP, and by a command that fails.
func testReadiness(t *testing.T, w *world) {
	p := newPod("probed", "serve", "--http", ":8080", "--tcp", ":7000", "--udp", "")
	web := &p.Spec.Containers[0]
	web.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	web.StartupProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(7000)}}}
	web.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("web")}}}
	w.create(t, p)
	w.until(t, 30*time.Second, "probed", ready)
	never := newPod("unready", "sleep")
	never.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/testapp", "exit", "1"}}}}
	w.create(t, never)
	w.event(t, "unready", "Unhealthy", "Readiness probe failed")
	got := w.until(t, 10*time.Second, "unready", inPhase(v1.PodRunning))
	if ready(got) == nil || got.Status.ContainerStatuses[0].RestartCount != 0 || !*got.Status.ContainerStatuses[0].Started {
		t.Errorf("it is %s", statusText(got))
	}
	w.remove(t, "probed", nil)
	w.remove(t, "unready", nil)
}

func testDeadline(t *testing.T, w *world) {
	p := newPod("late", "sleep")
	seconds := int64(300)
	p.Spec.ActiveDeadlineSeconds = &seconds
	w.create(t, p)
	w.until(t, 20*time.Second, "late", ready)
	_, err := w.Client.CoreV1().Pods(namespace).Patch(w.ctx, "late", types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":2}}`), metav1.PatchOptions{})
	must(t, err)
	done := w.until(t, 20*time.Second, "late", inPhase(v1.PodFailed))
	if done.Status.Reason != "DeadlineExceeded" || done.Status.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("reason %q, %s", done.Status.Reason, statusText(done))
	}
	w.event(t, "late", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
	w.remove(t, "late", nil)
}

// testForeignPhase: a pod that another client calls Failed ends.
func testForeignPhase(t *testing.T, w *world) {
	w.create(t, newPod("foreign", "sleep"))
	w.until(t, 20*time.Second, "foreign", ready)
	_, err := w.Client.CoreV1().Pods(namespace).Patch(w.ctx, "foreign", types.MergePatchType,
		[]byte(`{"status":{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True","reason":"Test"}]}}`), metav1.PatchOptions{}, "status")
	must(t, err)
	done := w.until(t, 20*time.Second, "foreign", func(p *v1.Pod) error {
		if p.Status.ContainerStatuses[0].State.Terminated == nil {
			return fmt.Errorf("it still runs: %s", statusText(p))
		}
		return inPhase(v1.PodFailed)(p)
	})
	kept := false
	for _, c := range done.Status.Conditions {
		kept = kept || c.Type == v1.DisruptionTarget
	}
	if !kept {
		t.Errorf("conditions %+v: DisruptionTarget was dropped", done.Status.Conditions)
	}
	w.remove(t, "foreign", nil)
}

func testAbsentImages(t *testing.T, w *world) {
	p := newPod("absent", "sleep")
	p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "testkit.local/nothing:1", v1.PullNever
	bad := container("bad", "sleep")
	bad.Image = "Not/A:Name:1"
	p.Spec.Containers = append(p.Spec.Containers, bad)
	w.create(t, p)
	w.until(t, 20*time.Second, "absent", func(p *v1.Pod) error {
		got := map[string]string{}
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				got[c.Name] = c.State.Waiting.Reason
			}
		}
		if got["app"] != "ErrImageNeverPull" || got["bad"] != "InvalidImageName" {
			return fmt.Errorf("reasons %v", got)
		}
		return inPhase(v1.PodPending)(p)
	})
	w.event(t, "absent", "ErrImageNeverPull", `Container image "testkit.local/nothing:1" is not present with pull policy of Never`)
	w.event(t, "absent", "InspectFailed", "Failed to apply default image tag")
	w.remove(t, "absent", nil)
}

// testEphemeral: a container joins a running pod and ends, once.
func testEphemeral(t *testing.T, w *world) {
	w.create(t, newPod("joined", "sleep"))
	up := w.until(t, 20*time.Second, "joined", ready)
	up.Spec.EphemeralContainers = []v1.EphemeralContainer{{TargetContainerName: "app", EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", Image: testkit.TestImage, Args: []string{"cat", "/proc/1/cmdline"}, TerminationMessagePolicy: v1.TerminationMessageReadFile}}}
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

// testImageVolume: the files of an image are a volume.
func testImageVolume(t *testing.T, w *world) {
	p := newPod("imaged", "ls", "/img")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.Volumes = []v1.Volume{{Name: "img", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: testkit.TestImage}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "img", MountPath: "/img"}}
	w.create(t, p)
	done := w.until(t, 20*time.Second, "imaged", inPhase(v1.PodSucceeded))
	if got := w.log(t, done, "app"); !strings.Contains(got, "testapp") {
		t.Errorf("the volume holds %q", got)
	}
	w.remove(t, "imaged", nil)
}

// testNewImage: the container runs again with the image that the pod now names, and the generation is observed.
func testNewImage(t *testing.T, w *world) {
	w.create(t, newPod("renewed", "sleep"))
	w.until(t, 20*time.Second, "renewed", ready)
	other := strings.TrimSuffix(testkit.TestImage, ":1") + ":2"
	must(t, w.ImportTestImage(w.ctx, other))
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","image":%q}]}}`, other)
	_, err := w.Client.CoreV1().Pods(namespace).Patch(w.ctx, "renewed", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
	w.until(t, 20*time.Second, "renewed", func(p *v1.Pod) error {
		c := p.Status.ContainerStatuses[0]
		if c.RestartCount != 1 || c.State.Running == nil || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("observed %d of %d: %s", p.Status.ObservedGeneration, p.Generation, statusText(p))
		}
		return nil
	})
	w.event(t, "renewed", "Killing", "Container app definition changed, will be restarted")
	w.remove(t, "renewed", nil)
}
