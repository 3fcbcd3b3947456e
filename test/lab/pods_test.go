package lab

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// systems are the two kinds of node. Tests of pods run on both.
var systems = []string{"linux", "windows"}

// onEach runs a test once per system, both at the same time.
func onEach(t *testing.T, story func(t *testing.T, system string)) {
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			story(t, system)
		})
	}
}

func getPod(name string) (*v1.Pod, error) {
	out, err := kubectlErr("get", "pod", name, "-o", "json")
	if err != nil {
		return nil, err
	}
	var pod v1.Pod
	return &pod, unmarshal(out, &pod)
}

// waitPod polls until ok says so; the last reason fails the test.
func waitPod(t *testing.T, name string, limit time.Duration, ok func(*v1.Pod) error) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	wait.NoError(t, limit, "pod "+name, func() (err error) {
		if pod, err = getPod(name); err != nil {
			return err
		}
		if err := ok(pod); err != nil {
			return fmt.Errorf("pod %s: %w; containers: %+v", name, err, pod.Status.ContainerStatuses)
		}
		return nil
	})
	return pod
}

func isReady(pod *v1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("is not ready (%s)", pod.Status.Phase)
}

func succeeded(pod *v1.Pod) error {
	if pod.Status.Phase != v1.PodSucceeded {
		return fmt.Errorf("phase is %s, want Succeeded", pod.Status.Phase)
	}
	return nil
}

const podWait = 60 * time.Second

// podConfig is a Secret and a ConfigMap, for the tests of environments and volumes.
const podConfig = `
apiVersion: v1
kind: Secret
metadata: {name: mysecret-%[1]s}
type: Opaque
data:
  username: YWRtaW4=
  password: MWYyZDFlMmU2N2Rm
---
apiVersion: v1
kind: ConfigMap
metadata: {name: example-config-%[1]s}
data:
  example.property.1: hello
  example.property.2: world
`

// Rows 1.91, 1.103.
func TestEnvironment(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		apply(t, fmt.Sprintf(podConfig+`
---
apiVersion: v1
kind: Pod
metadata: {name: env-%[1]s, labels: {app: env}}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/os: %[1]s}
  containers:
  - name: env
    image: porthole/testapp:1
    args: [env]
    env:
    - {name: LITERAL, value: plain}
    - {name: EXPANDED, value: "$(LITERAL)-more"}
    - {name: NET__STYLE, value: kept}
    - {name: "NET:STYLE", value: colon}
    - name: SECRET_USERNAME
      valueFrom: {secretKeyRef: {name: mysecret-%[1]s, key: username}}
    - name: PROPERTY
      valueFrom: {configMapKeyRef: {name: example-config-%[1]s, key: example.property.1}}
    - name: MY_POD
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: MY_NODE
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    - name: MY_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    envFrom:
    - secretRef: {name: mysecret-%[1]s}
`, system))

		pod := waitPod(t, "env-"+system, podWait, succeeded)
		logs := kubectl(t, "logs", "env-"+system)
		if system == "windows" && !strings.Contains(logs, "PORTHOLE_IMAGE_BUILD=10.0.20348.") {
			t.Errorf("the image is not the one of the node's build:\n%s", logs)
		}

		for _, want := range []string{"LITERAL=plain", "EXPANDED=plain-more", "NET__STYLE=kept", "NET:STYLE=colon",
			"SECRET_USERNAME=admin", "PROPERTY=hello", "password=1f2d1e2e67df",
			"MY_POD=env-" + system, "MY_NODE=" + pod.Spec.NodeName, "MY_IP=" + pod.Status.PodIP,
			"KUBERNETES_SERVICE_HOST=10.96.0.1"} {
			if !strings.Contains(logs, want) {
				t.Errorf("environment lacks %q:\n%s", want, logs)
			}
		}
	})
}

// Rows 1.14, 1.15, 1.16.
func TestTwoContainersAndInit(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		data := map[string]string{"linux": "/data", "windows": "C:/data"}[system]
		apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: two-%[1]s}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/os: %[1]s}
  volumes:
  - {name: shared, emptyDir: {}}
  initContainers:
  - name: init
    image: porthole/testapp:1
    args: [write, %[2]s/word, from-init]
    volumeMounts: [{name: shared, mountPath: "%[2]s"}]
  containers:
  - name: server
    image: porthole/testapp:1
    args: [serve, --http, ":8080"]
    volumeMounts: [{name: shared, mountPath: "%[2]s"}]
  - name: client
    image: porthole/testapp:1
    args: [serve, --http, ":8081"]
    volumeMounts: [{name: shared, mountPath: "%[2]s"}]
  - {name: third, image: "porthole/testapp:1", args: [serve, --http, ":8082"]}
`, system, data))

		waitPod(t, "two-"+system, podWait, isReady)
		in := func(container string, words ...string) string {
			return kubectl(t, append([]string{"exec", "two-" + system, "-c", container, "--", "testapp"}, words...)...)
		}
		for _, path := range []string{"/", "/file?path=" + data + "/word"} {
			out := in("client", "get", "http://localhost:8080"+path)
			if path != "/" && !strings.Contains(out, "from-init") {
				t.Errorf("the other container's %s gives %q", path, out)
			}
		}
		if out := in("third", "get", "http://localhost:8081/"); out == "" {
			t.Error("the third container gets no answer of the second")
		}

		in("client", "write", data+"/back", "from-client") // the other way
		if out := in("server", "cat", data+"/back"); !strings.Contains(out, "from-client") {
			t.Errorf("what the other container wrote is %q", out)
		}
		for _, container := range []string{"server", "client", "third"} {
			// Two programs: the container's own server, and `testapp processes` itself.
			if names := in(container, "processes"); strings.Count(names, "testapp") != 2 ||
				strings.Contains(names, "pause") {
				t.Errorf("container %s sees %q, want no program of the pod's others", container, names)
			}
		}
		if system == "windows" {
			if n := endpointsWith(t, waitPod(t, "two-windows", podWait, isReady)); n != 1 {
				t.Errorf("%d HNS endpoints have the pod's address, want 1 for all containers", n)
			}
		}
	})
}

// endpointsWith counts the HNS endpoints of a pod's node that have the pod's address.
func endpointsWith(t *testing.T, pod *v1.Pod) (n int) {
	t.Helper()
	out, err := command(20*time.Second, porthole, "host", "hns", "--dir", dir, pod.Spec.NodeName, "dump", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var d hnsDump
	if err := unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	for _, e := range d.Endpoints {
		for _, c := range e.IPConfigurations {
			if c.IPAddress == pod.Status.PodIP {
				n++
			}
		}
	}
	return n
}

// Rows 1.91, 1.92, 1.93.
func TestConfigVolumesAndHostPath(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		paths := map[string][]string{
			"linux":   {"/etc/foo", "/etc/bar", "/data/host"},
			"windows": {`C:\etc\foo`, "C:/etc/bar", "/data/host"},
		}[system]
		hostPath := map[string]string{"linux": filepath.Join(dir, "hosts/lin01/shared"), "windows": `C:\shared`}[system]
		apply(t, fmt.Sprintf(podConfig+`
---
apiVersion: v1
kind: Pod
metadata: {name: volumes-%[1]s}
spec:
  nodeSelector: {kubernetes.io/os: %[1]s}
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: secret, secret: {secretName: mysecret-%[1]s}}
  - {name: config, configMap: {name: example-config-%[1]s}}
  - {name: host, hostPath: {path: '%[5]s', type: DirectoryOrCreate}}
  containers:
  - name: app
    image: porthole/testapp:1
    args: [serve, --http, ":8080"]
    env:
    - name: PROPERTY
      valueFrom: {configMapKeyRef: {name: example-config-%[1]s, key: example.property.2}}
    - name: PASSWORD
      valueFrom: {secretKeyRef: {name: mysecret-%[1]s, key: username}}
    volumeMounts:
    - {name: secret, mountPath: '%[2]s', readOnly: true}
    - {name: config, mountPath: '%[3]s', readOnly: true}
    - {name: host, mountPath: '%[4]s', readOnly: true}
`, system, paths[0], paths[1], paths[2], hostPath))

		name := "volumes-" + system
		before := waitPod(t, name, podWait, isReady)
		for path, want := range map[string]string{paths[0] + "/username": "admin",
			paths[1] + "/example.property.2": "world"} {
			if out := kubectl(t, "exec", name, "--", "testapp", "cat", path); strings.TrimSpace(out) != want {
				t.Errorf("%s holds %q, want %q", path, out, want)
			}
		}

		if out, err := kubectlErr("exec", name, "--", "testapp", "write", paths[2]+"/file", "x"); err == nil {
			t.Errorf("writing to a read-only hostPath succeeded: %s", out)
		}
		kubectl(t, "patch", "secret", "mysecret-"+system, "-p", `{"stringData":{"username":"changed"}}`)
		kubectl(t, "patch", "configmap", "example-config-"+system, "-p", `{"data":{"example.property.2":"changed"}}`)
		for _, path := range []string{paths[0] + "/username", paths[1] + "/example.property.2"} {
			wait.NoError(t, 10*time.Second, "the changed file "+path, func() error {
				out, err := kubectlErr("exec", name, "--", "testapp", "cat", path)
				if err == nil && strings.TrimSpace(out) != "changed" {
					err = fmt.Errorf("still %q", out)
				}
				return err
			})
		}

		// The kubelet knows the new values now; the container and its environment are those of before.
		if env := kubectl(t, "exec", name, "--", "testapp", "env"); !strings.Contains(env, "PROPERTY=world") ||
			!strings.Contains(env, "PASSWORD=admin") {
			t.Errorf("after the update the environment is\n%s", env)
		}
		after := waitPod(t, name, podWait, isReady).Status.ContainerStatuses[0]
		if was := before.Status.ContainerStatuses[0]; after.ContainerID != was.ContainerID || after.RestartCount != 0 {
			t.Errorf("after the update the container is %s, restarted %d times; before %s", after.ContainerID,
				after.RestartCount, was.ContainerID)
		}
	})
}

// Row 1.11.
func TestRestartWithBackOff(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: crash-%[1]s}
spec:
  nodeSelector: {kubernetes.io/os: %[1]s}
  containers: [{name: crash, image: "porthole/testapp:1", args: [exit, "3"]}]
`, system))

		address := ""
		pod := waitPod(t, "crash-"+system, 3*podWait, func(pod *v1.Pod) error {
			if address == "" {
				address = pod.Status.PodIP
			}
			for _, s := range pod.Status.ContainerStatuses {
				if s.RestartCount >= 2 && s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" {
					return nil
				}
			}
			return fmt.Errorf("does not wait in CrashLoopBackOff after 2 restarts")
		})
		if address == "" || pod.Status.PodIP != address {
			t.Errorf("the pod's address was %q before the restarts and is %q", address, pod.Status.PodIP)
		}
		last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.ExitCode != 3 {
			t.Errorf("last termination is %+v, want exit code 3", last)
		}
	})
}

// serverPod runs the test program as a server and waits until it is ready. grace is in seconds.
func serverPod(t *testing.T, name, system string, grace int) {
	t.Helper()
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {kubernetes.io/os: %s}
  terminationGracePeriodSeconds: %d
  containers: [{name: app, image: "porthole/testapp:1", args: [serve, --http, ":8080"]}]
`, name, system, grace))
	waitPod(t, name, podWait, isReady)
}

// TestLogsFollowAndDelete: `kubectl logs -f` shows lines as they come, and ends with the pod, which is gone within its
// grace period.
func TestLogsFollowAndDelete(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		name := "follow-" + system
		serverPod(t, name, system, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, porthole, "kubectl", "--dir", dir, "logs", "-f", name)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}

		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(out)
		if !scanner.Scan() || !strings.Contains(scanner.Text(), "serving HTTP") {
			t.Errorf("first line of logs -f is %q", scanner.Text())
		}
		started := time.Now()
		kubectl(t, "delete", "pod", name, "--wait=true", "--timeout=30s")

		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("deleting took %s with a grace period of 3 s", took)
		}
		for scanner.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("logs -f did not end with its container: %v", err)
		}
	})
}

// Row 1.96.
func TestExec(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		name := "exec-" + system
		serverPod(t, name, system, 0)
		if out, err := kubectlErr("exec", name, "--", "testapp", "exit", "7"); err == nil ||
			!strings.Contains(err.Error(), "exit code 7") {
			t.Errorf("exec of exit 7 gives %v %s", err, out)
		}
		if system == "windows" {
			cmd := onTerminal(t, 100, 30, "exec", "-it", name, "--", "cmd", "/c", "ver")
			cmd.shows("Windows")
			cmd.ends(0)
		}
	})
}

// TestTerminal has people at terminals of containers: one starts a pod, one attaches to it, and both sizes reach the
// program; what is typed does too, an interruption among it.
// Row 1.96.
func TestTerminal(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		name := "terminal-" + system
		t.Cleanup(func() { _, _ = kubectlErr("delete", "pod", name, "--ignore-not-found", "--force") })
		first := onTerminal(t, 101, 31, "run", "-it", name, "--image=porthole/testapp:1", "--restart=Never",
			"--pod-running-timeout=2m",
			`--overrides={"spec": {"terminationGracePeriodSeconds": 0, "nodeSelector": {"kubernetes.io/os": "`+system+
				`"}}}`, "--", "console")
		first.shows("size 101x31")
		first.resize(90, 20)
		first.shows("size 90x20")
		first.types("hello\r")
		first.shows(`said "hello"`)

		second := onTerminal(t, 120, 40, "attach", "-it", name)
		second.shows("size 120x40")
		second.types("from elsewhere\r")
		first.shows(`said "from elsewhere"`)

		inside := onTerminal(t, 80, 25, "exec", "-it", name, "--", "testapp", "console")
		inside.shows("size 80x25")
		inside.resize(70, 24)
		inside.shows("size 70x24")
		inside.types("exit 37\r")
		inside.ends(37)

		second.types("\x03")
		first.shows("interrupted")
		first.ends(interrupted)
		pod := waitPod(t, name, podWait, func(p *v1.Pod) error {
			if p.Status.Phase != v1.PodFailed {
				return fmt.Errorf("the pod is %s", p.Status.Phase)
			}
			return nil
		})
		if s := pod.Status.ContainerStatuses[0].State.Terminated; s == nil || s.ExitCode != interrupted {
			t.Errorf("the container has ended as %+v", s)
		}
	})
}

// interrupted is the exit code of testapp's console after an interruption.
const interrupted = 130

// TestCPULimit has one system after the other burn processor time. The kernel has the limit as the container's quota,
// and no container may use more than a tenth over it. It must reach nine tenths of it, or the kernel must have held it
// back, which it does only at the quota: other tests may have the rest of the machine.
// Row 1.97.
func TestCPULimit(t *testing.T) {
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			name := "burn-" + system
			apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[2]s}
spec:
  nodeSelector: {kubernetes.io/os: %[1]s}
  terminationGracePeriodSeconds: 0
  containers:
  - name: burn
    image: porthole/testapp:1
    args: [burn]
    resources: {limits: {cpu: 800m}, requests: {cpu: 400m}}
  - name: simmer
    image: porthole/testapp:1
    args: [burn]
    resources: {limits: {cpu: 200m}, requests: {cpu: 100m}}
`, system, name))

			pod := waitPod(t, name, podWait, isReady)
			limits := []float64{0.8, 0.2}
			wait.NoError(t, 2*time.Minute, "the burners to reach their limits", func() error {
				used := cpuUsed(t, pod, 4*time.Second)
				for i, u := range used {
					if u.processors > 1.1*limits[i] {
						t.Fatalf("burners limited to %v CPUs used %+v", limits, used)
					}
					if u.quota != limits[i] {
						t.Fatalf("burners limited to %v CPUs have the quota %+v", limits, used)
					}
					if u.processors < 0.9*limits[i] && u.heldBack == 0 {
						return fmt.Errorf("burners limited to %v CPUs used %+v", limits, used)
					}
				}
				t.Logf("burners limited to %v CPUs used %+v", limits, used)
				return nil
			})
		})
	}
}

// cpuUse is what a container used: how many processors, and in how many periods the kernel held it back. quota is how
// many it may use.
type cpuUse struct {
	processors, quota float64
	heldBack          int
}

// cpuUsed reads the counters of each of a pod's containers from the kernel twice, and returns what they used between.
func cpuUsed(t *testing.T, pod *v1.Pod, over time.Duration) (used []cpuUse) {
	t.Helper()
	type counters struct {
		seconds  float64
		heldBack int
	}
	number := func(s v1.ContainerStatus, controller, file string) float64 {
		n, err := strconv.ParseFloat(strings.TrimSpace(cgroupFile(t, s, controller, file)), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	read := func(s v1.ContainerStatus) counters {
		stat := strings.Fields(cgroupFile(t, s, "cpu", "cpu.stat"))
		i := slices.Index(stat, "nr_throttled")
		if i < 0 {
			t.Fatalf("cpu.stat of %s: %q", s.Name, stat)
		}
		n, err := strconv.Atoi(stat[i+1])
		if err != nil {
			t.Fatal(err)
		}
		return counters{number(s, "cpuacct", "cpuacct.usage") / 1e9, n}
	}

	var before []counters
	started := time.Now()
	for _, s := range pod.Status.ContainerStatuses {
		before = append(before, read(s))
	}
	time.Sleep(over) // a measurement needs its time; nothing is waited for
	for i, s := range pod.Status.ContainerStatuses {
		now := read(s)
		used = append(used, cpuUse{
			processors: (now.seconds - before[i].seconds) / time.Since(started).Seconds(),
			quota:      number(s, "cpu", "cpu.cfs_quota_us") / number(s, "cpu", "cpu.cfs_period_us"),
			heldBack:   now.heldBack - before[i].heldBack,
		})
	}
	return used
}

// cgroupFile reads a file of a container's cgroup (v1).
func cgroupFile(t *testing.T, s v1.ContainerStatus, controller, name string) string {
	t.Helper()
	id := strings.TrimPrefix(s.ContainerID, "containerd://")
	var files []string
	wait.NoError(t, 5*time.Second, "the container's cgroup", func() error {
		out, err := command(5*time.Second, "find", "/sys/fs/cgroup/"+controller, "/sys/fs/cgroup/cpu,cpuacct", "-path",
			"*"+id+"*", "-name", name)
		files = strings.Fields(out)
		if len(files) == 0 {
			return fmt.Errorf("no cgroup of container %s: %v", id, err)
		}
		return nil
	})
	out, err := command(5*time.Second, "cat", files[0])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMemoryLimit: on Linux the runtime says that the kernel ended a container for its memory. On Windows nothing
// does: an allocation beyond the limit fails, and a Go program ends for it.
// Row 1.97.
func TestMemoryLimit(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: hog-%[1]s}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/os: %[1]s}
  containers:
  - name: hog
    image: porthole/testapp:1
    args: [hog, "512"]
    resources: {limits: {memory: 192Mi}, requests: {memory: 64Mi}}
`, system))

		ended := func(s *v1.ContainerStateTerminated) bool { return s.Reason == "OOMKilled" }
		if system == "windows" {
			ended = func(s *v1.ContainerStateTerminated) bool {
				return s.Reason == "Error" && uint32(s.ExitCode) == statusCommitmentLimit
			}
		}
		waitPod(t, "hog-"+system, podWait, func(pod *v1.Pod) error {
			for _, s := range pod.Status.ContainerStatuses {
				if s.State.Terminated != nil && ended(s.State.Terminated) {
					return nil
				}
			}
			return fmt.Errorf("has not ended for its memory: %+v", pod.Status.ContainerStatuses)
		})
	})
}

// statusCommitmentLimit is STATUS_COMMITMENT_LIMIT of ntstatus.h, the exit code of a Windows program that was refused
// memory.
const statusCommitmentLimit = 0xC000012D

// Rows 1.89, 1.100.
func TestDaemonSet(t *testing.T) {
	apply(t, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: my-daemonset, labels: {app: foo}}
spec:
  selector: {matchLabels: {app: foo}}
  template:
    metadata: {labels: {app: foo}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: foo, image: "porthole/testapp:1", args: [serve, --http, ":8080"]}]
      nodeSelector: {beta.kubernetes.io/os: windows}
`)
	wait.NoError(t, podWait, "a pod on each Windows node", func() error {
		out, err := kubectlErr("get", "pods", "-l", "app=foo", "-o",
			"jsonpath={range .items[*]}{.spec.nodeName}={.status.containerStatuses[0].ready} {end}")
		if err == nil && (strings.Count(out, "=true") != 2 || !strings.Contains(out, "win01=") ||
			!strings.Contains(out, "win02=")) {
			err = fmt.Errorf("pods by node: %s", out)
		}
		return err
	})
}

// Row 1.102.
func TestImageForAnotherBuild(t *testing.T) {
	apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: old-image}
spec:
  nodeSelector: {kubernetes.io/os: windows}
  containers: [{name: app, image: "porthole/testapp:1709"}]
---
apiVersion: v1
kind: Pod
metadata: {name: no-image}
spec:
  nodeSelector: {kubernetes.io/os: windows}
  containers: [{name: app, image: "porthole/absent:1"}]
`)
	waitEvent(t, "old-image", "it was not pulled", "16299 (Windows Server, version 1709)", "node win0",
		"20348 (Windows Server 2022)", "no Windows node of the cluster runs it")
	waitEvent(t, "no-image", "porthole/absent:1")
}

// waitEvent waits for an event about the pod whose message contains all the words.
func waitEvent(t *testing.T, pod string, words ...string) {
	t.Helper()
	wait.NoError(t, podWait, "the event", func() error {
		out, err := kubectlErr("get", "events", "--field-selector", "involvedObject.name="+pod, "-o",
			`jsonpath={range .items[*]}{.message}{"\n"}{end}`)
		if err != nil {
			return err
		}
		for _, line := range strings.Split(out, "\n") {
			found := 0
			for _, w := range words {
				if strings.Contains(line, w) {
					found++
				}
			}
			if found == len(words) {
				return nil
			}
		}
		return fmt.Errorf("no event of %s with %v in:\n%s", pod, words, out)
	})
}

// TestNeverOnTheOtherSystem: a pod that asks for one system is not run by a node of the other, even when it is put
// there past the scheduler.
// Row 1.100.
func TestNeverOnTheOtherSystem(t *testing.T) {
	for node, other := range map[string]string{"lin01": "windows", "win01": "linux"} {
		t.Run(other+" on "+node, func(t *testing.T) {
			name := "wrong-" + other
			apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  nodeSelector: {kubernetes.io/os: %s}
  containers: [{name: app, image: "porthole/testapp:1", args: [serve]}]
`, name, node, other))

			pod := waitPod(t, name, podWait, func(pod *v1.Pod) error {
				if pod.Status.Phase != v1.PodFailed {
					return fmt.Errorf("phase is %s, want Failed", pod.Status.Phase)
				}
				return nil
			})
			if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].ContainerID != "" {
				t.Errorf("a container was made: %+v", pod.Status.ContainerStatuses)
			}
			t.Logf("%s: %s", pod.Status.Reason, pod.Status.Message)
		})
	}
}
