package kubelet

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubelet runs most tests on one world: first those that can run in parallel, then those that need it alone.
func TestKubelet(t *testing.T) {
	w := newWorld(t, setup{limit: worldTime()})
	t.Run("pods", func(t *testing.T) {
		t.Run("init container and environment", func(t *testing.T) { t.Parallel(); testEnvironment(t, w) })
		for name, test := range lifecycle {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, w) })
		}
		t.Run("server", func(t *testing.T) { t.Parallel(); testServer(t, w) })
		t.Run("volumes follow their objects", func(t *testing.T) { t.Parallel(); testFollows(t, w) })
	})
	w.nothingLeft(t)

	t.Run("node", func(t *testing.T) {
		t.Run("admission", func(t *testing.T) { t.Parallel(); testAdmission(t, w) })
		t.Run("runtime class", func(t *testing.T) { t.Parallel(); testRuntimeClass(t, w) })
		t.Run("foreign status", func(t *testing.T) { t.Parallel(); testForeignStatus(t, w) })
	})
	w.nothingLeft(t)

	w.run(t, "devices", testDevices)
	w.run(t, "credential tokens", testCredentialTokens)
	w.run(t, "settings of the process", testProcessSettings)
	w.run(t, "health in parts", testHealth)
	w.run(t, "processors and memory alone", testPins)
	w.run(t, "user namespaces", testUserNamespaces)
	w.run(t, "seccomp profile of sandboxes", testSandboxSeccomp)
	w.run(t, "resize", testResize)
	w.run(t, "rotation of logs", withConfig(testRotation, map[string]any{
		"containerLogMaxSize": rotatedAt, "containerLogMaxFiles": keptLogs, "containerLogMonitorInterval": "3s"}))
	w.run(t, "eviction by memory", withConfig(testMemoryEviction, memoryConfig(t)))
	w.run(t, "eviction by disk", withConfig(testDiskEviction, map[string]any{
		"evictionHard": map[string]string{"nodefs.available": "50%"}, "evictionPressureTransitionPeriod": "1s"}))
	w.run(t, "limits of local storage",
		withConfig(testLocalLimits, map[string]any{"localStorageCapacityIsolation": true}))
	w.run(t, "image garbage collection", testImageGC)
	w.run(t, "static pod", testStatic)
	w.run(t, "standalone", testStandalone)
	w.run(t, "full disk", testFullDisk)
	w.run(t, "API server away", testAway)
	w.run(t, "clock set", testClock)
	w.nothingLeft(t)

	w.run(t, "start that was cut short", testCutStart)
	w.run(t, "suite of the runtime", testRuntimeSuite)
	w.run(t, "killed during churn", testKilled)
	w.nothingLeft(t)
	w.run(t, "containerd killed", testContainerdRestart)
	w.nothingLeft(t)
}

// TestBesideUpstream has a world of its own: one of its tests needs an API server with a feature that is off, and all
// take their time, as each starts upstream's kubelet too.
func TestBesideUpstream(t *testing.T) {
	w := newWorld(t, setup{limit: worldTime(),
		apiServer: []string{"--feature-gates=PodCertificateRequest=true",
			"--runtime-config=certificates.k8s.io/v1beta1=true"}})
	w.run(t, "claims of resources", testClaims)
	w.run(t, "certificates of pods", testPodCertificates)
	w.run(t, "resources of a pod as a whole", testWhole)
	w.run(t, "chains of iptables", testChains)
	w.run(t, "switch-over", testSwitchOver)
	w.nothingLeft(t)
}

// run runs a test that uses the world alone. If it fails, its pods are deleted before the next one.
func (w *world) run(t *testing.T, name string, test func(*testing.T, *world)) {
	if t.Run(name, func(t *testing.T) { test(t, w) }) {
		return
	}
	err := w.Client.CoreV1().Pods(namespace).
		DeleteCollection(w.ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
	if err != nil {
		t.Errorf("after %s: %v", name, err)
	}
}

// testEnvironment: an init container leaves a file for the container, whose environment comes from every source.
func testEnvironment(t *testing.T, w *world) {
	api := w.Client.CoreV1()
	_, err := api.ConfigMaps(namespace).Create(w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"},
		Data: map[string]string{"colour": "blue"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = api.Secrets(namespace).Create(w.ctx, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"},
		Data: map[string][]byte{"TOKEN": []byte("s3cret")}}, metav1.CreateOptions{})
	must(t, err)

	settings, keys := v1.LocalObjectReference{Name: "settings"}, v1.LocalObjectReference{Name: "keys"}
	p := newPod("env", "env", "PLAIN", "COLOUR", "TOKEN", "NAME", "IP", "JOINED")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.Volumes = []v1.Volume{{Name: "shared", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	shared := []v1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
	first := container("first", "write", "/shared/note", "from", "init")
	first.VolumeMounts = shared
	reader := container("reader", "cat", "/shared/note")
	reader.VolumeMounts = shared
	p.Spec.InitContainers = []v1.Container{first}
	p.Spec.Containers = append(p.Spec.Containers, reader)

	app := &p.Spec.Containers[0]
	app.EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: keys}}}
	app.Env = []v1.EnvVar{
		{Name: "PLAIN", Value: "plain"},
		{Name: "COLOUR",
			ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: settings,
				Key: "colour"}}},
		{Name: "NAME", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: "JOINED", Value: "$(PLAIN)-$(NAME)"},
	}

	w.create(t, p)
	done := w.until(t, 20*time.Second, "env", inPhase(v1.PodSucceeded))
	want := strings.Join([]string{"plain", "blue", "s3cret", "env", done.Status.PodIP, "plain-env", ""}, "\n")
	if got := w.log(t, done, "app"); got != want {
		t.Errorf("environment:\n%s\nwant:\n%s", got, want)
	}
	if got := w.log(t, done, "reader"); got != "from init\n" {
		t.Errorf("the file of the init container holds %q", got)
	}
	w.remove(t, "env", nil)
}
