package kubelet

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// onWindowsNode makes the node of a bubble a Windows node. Folders stay those of the system that the test runs on.
func onWindowsNode(b *fakeNode) { b.windows = true }

// hostProcess makes a container run as a process of the host, or not.
func hostProcess(c v1.Container, on bool) v1.Container {
	c.SecurityContext = &v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{HostProcess: &on}}
	return c
}

// TestIsolationAnnotation: a pod of Kubernetes 1.10 to 1.20 that asks for Hyper-V isolation runs without, and is told
// what to use.
// Row 1.99.
func TestIsolationAnnotation(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		p := aPod("pod", "sleep")
		p.Annotations = map[string]string{"experimental.windows.kubernetes.io/isolation-type": "hyperv"}
		b.cluster.create(p)
		b.untilReady(time.Minute, "pod")
		b.hasEvents("pod", "IsolationAnnotation")
		if said := b.cluster.said("pod"); !strings.Contains(said,
			"use a RuntimeClass with the handler runhcs-wcow-hypervisor") {
			t.Errorf("events: %s", said)
		}
	}, onWindowsNode)
}

// TestHostProcessByContainer: only the containers of a pod say that they are HostProcess containers, as tigera's
// operator writes them. The sandbox must be told so too, or containerd refuses each container.
func TestHostProcessByContainer(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		p := aPod("pod", "sleep")
		p.Spec.HostNetwork = true
		p.Spec.InitContainers = []v1.Container{hostProcess(aContainer("before", "exit", "0"), true)}
		p.Spec.Containers[0] = hostProcess(p.Spec.Containers[0], true)
		b.cluster.create(p)
		b.untilReady(time.Minute, "pod")
		if got := b.cluster.get("pod").Status.PodIP; got != "10.98.0.1" {
			t.Errorf("the pod has the address %s, want the node's", got)
		}

		bad := aPod("bad", "nothing")
		bad.Spec.HostNetwork, bad.Spec.RestartPolicy = true, v1.RestartPolicyNever
		bad.Spec.Containers[0] = hostProcess(bad.Spec.Containers[0], true)
		b.cluster.create(bad)
		b.untilPod(time.Minute, "bad", "Failed", phase(v1.PodFailed))
		for series, want := range map[string]float64{
			`started_host_process_containers_total container_type="container"`:                                 2,
			`started_host_process_containers_total container_type="init_container"`:                            1,
			`started_host_process_containers_errors_total code="RunContainerError",container_type="container"`: 1,
		} {
			if got := counted(t, b.meter, series); got != want {
				t.Errorf("%s is %v, want %v", series, got, want)
			}
		}
	}, onWindowsNode, func(b *fakeNode) { b.meter = meter.New(meter.Options{NodeName: "node"}) })
}

// counted returns the value of a counter, by its name without kubelet_ and its labels in order.
func counted(t *testing.T, m *meter.Meter, series string) float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			if "kubelet_"+series == f.GetName()+" "+strings.Join(labels, ",") {
				return one.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// TestHostProcessRefused: pods that no Windows runtime can run get upstream's words, and no sandbox. The API server
// refuses them as well; a static pod passes it by.
func TestHostProcessRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*v1.Pod)
	}{
		{"one of two containers", "pod must not contain both HostProcess and non-HostProcess containers",
			func(p *v1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, aContainer("other", "sleep"))
			}},
		{"all but the init container", "pod must not contain both HostProcess and non-HostProcess containers",
			func(p *v1.Pod) {
				p.Spec.InitContainers = []v1.Container{aContainer("before", "exit", "0")}
			}},
		{"pod network", "hostNetwork is required if Pod contains HostProcess containers",
			func(p *v1.Pod) { p.Spec.HostNetwork = false }},
		{"the pod says no",
			"pod must not contain any HostProcess containers if Pod's WindowsOptions.HostProcess is set to false",
			func(p *v1.Pod) {
				no := false
				p.Spec.SecurityContext = &v1.PodSecurityContext{
					WindowsOptions: &v1.WindowsSecurityContextOptions{HostProcess: &no}}
			}},
	} {

		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(b *fakeNode) {
				p := aPod("pod", "sleep")
				p.Spec.HostNetwork = true
				p.Spec.Containers[0] = hostProcess(p.Spec.Containers[0], true)
				c.spoil(p)

				b.cluster.create(p)
				time.Sleep(10 * time.Second)
				b.hasEvents("pod", "FailedCreatePodSandBox: Failed to create pod sandbox: "+c.want)
				if n := b.runtime.Count("RunPodSandbox"); n != 0 {
					t.Errorf("the runtime was asked for a sandbox %d times", n)
				}
			}, onWindowsNode)
		})
	}
}

// TestLateEnds: containers that end soon after their start, on a runtime that sees it 5 s after the start. The times
// that the kubelet tells are the true ones.
func TestLateEnds(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		begun := time.Now()
		setup := aPod("setup", "sleep")
		setup.Spec.InitContainers = []v1.Container{aContainer("one", "exit", "0"), aContainer("two", "exit", "0")}
		b.cluster.create(setup)
		once := aPod("once", "exit", "300")
		once.Spec.RestartPolicy = v1.RestartPolicyNever
		b.cluster.create(once)
		b.cluster.create(aPod("absent", "nothing"))
		b.untilReady(30*time.Second, "setup")
		if took := time.Since(begun); took < 10*time.Second || took > 14*time.Second {
			t.Errorf("two init containers took %v, want a little over 10 s", took)
		}

		p := b.untilPod(10*time.Second, "once", "Failed", phase(v1.PodFailed))
		end := p.Status.ContainerStatuses[0].State.Terminated
		if ran := end.FinishedAt.Sub(end.StartedAt.Time); end.ExitCode != 300 || ran > time.Second {
			t.Errorf("it ran for %v and ended with %d", ran, end.ExitCode)
		}
		b.untilPod(time.Minute, "absent", "refused", func(p *v1.Pod) bool {
			c := p.Status.ContainerStatuses
			return len(c) == 1 && c[0].RestartCount > 0 && c[0].LastTerminationState.Terminated != nil &&
				c[0].LastTerminationState.Terminated.ExitCode == 128
		})

		young := aPod("young", "sleep", "1000")
		grace := int64(3)
		young.Spec.TerminationGracePeriodSeconds = &grace
		b.cluster.create(young)
		b.untilReady(10*time.Second, "young")
		begun = time.Now()
		b.removeAll("young")
		b.untilGone(10*time.Second, "young")
		if took := time.Since(begun); took < 4*time.Second {
			t.Errorf("a pod that was just started is gone after %v", took)
		}
		b.removeAll("setup", "once", "absent")
		b.nothingLeft()
	}, onWindowsNode, func(b *fakeNode) { b.runtime.LateEnds = true })
}

// TestLateEndsOfRestarts: on such a runtime back-off, hooks, probes and the end of a job's pod are as on any other,
// but for the 5 s.
func TestLateEndsOfRestarts(t *testing.T) {
	var mu sync.Mutex
	var starts []time.Time // of the container that crashes
	inBubble(t, func(b *fakeNode) {
		b.cluster.create(aPod("crash", "exit", "3"))
		job := aPod("job", "exit", "0")
		job.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		b.cluster.create(job)
		started := aPod("started", "sleep")
		started.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("exit", "3")}
		b.cluster.create(started)
		hooked := aPod("hooked", "sleep")
		hooked.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: execHook("sleep", "1")}
		b.cluster.create(hooked)
		probed := aPod("probed", "sleep")
		probed.Spec.Containers[0].LivenessProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 2, SuccessThreshold: 1,
			TimeoutSeconds: 1,
			ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/testapp", "exit", "1"}}}}
		b.cluster.create(probed)

		b.untilPod(20*time.Second, "job", "Succeeded", phase(v1.PodSucceeded))
		b.untilReady(20*time.Second, "hooked")
		begun, execs := time.Now(), b.runtime.Count("ExecSync")
		b.removeAll("hooked")
		b.untilGone(20*time.Second, "hooked")
		if took := time.Since(begun); took > 10*time.Second || b.runtime.Count("ExecSync") == execs {
			t.Errorf("its end took %v; its hook: %d commands before, %d after", took, execs,
				b.runtime.Count("ExecSync"))
		}
		b.untilPod(time.Minute, "started", "started again", restarts(1))
		b.hasEvents("started", "FailedPostStartHook: PostStartHook failed", "Killing: FailedPostStartHook")
		b.untilPod(time.Minute, "probed", "started again", restarts(1))
		b.hasEvents("probed", "Killing: Container app failed liveness probe, will be restarted")

		crashed := b.untilPod(5*time.Minute, "crash", "restarted four times", restarts(4))
		if end := crashed.Status.ContainerStatuses[0].LastTerminationState.Terminated; end.ExitCode != 3 ||
			end.FinishedAt.Sub(end.StartedAt.Time) > time.Second {
			t.Errorf("the last end is %+v", end)
		}
		b.removeAll("crash", "job", "started", "probed")
		b.nothingLeft()
		mu.Lock()
		defer mu.Unlock()
		for i, want := range []time.Duration{5, 10, 20, 40} { // TestRestartPauses has 0 in place of the first
			if pause := starts[i+1].Sub(starts[i]); pause < want*time.Second || pause > (want+2)*time.Second {
				t.Errorf("restart %d came %v after the start before it, want %d s", i+1, pause, want)
			}
		}
	}, onWindowsNode, func(b *fakeNode) {
		b.runtime.LateEnds = true
		b.runtime.Program = func(c *cri.ContainerConfig) runtimetest.Process {
			mu.Lock()
			defer mu.Unlock()
			if slices.Contains(c.Args, "3") {
				starts = append(starts, time.Now())
			}
			return runtimetest.TestProgram(c)
		}
	})
}

// TestHostNetworkOnWindows: a pod that asks for the node's network and has no HostProcess containers gets a pod
// network from a Windows runtime. Its status and its environment tell the address that it really has; its hosts file
// begins with the node's, as upstream's.
func TestHostNetworkOnWindows(t *testing.T) {
	var mu sync.Mutex
	var env, hosts string
	watch := func(b *fakeNode) {
		b.windows = true
		b.runtime.Program = func(c *cri.ContainerConfig) runtimetest.Process {
			mu.Lock()
			defer mu.Unlock()
			for _, kv := range c.Envs {
				if kv.Key == "IP" {
					env = string(kv.Value)
				}
			}
			for _, m := range c.Mounts {
				if strings.HasSuffix(m.ContainerPath, "hosts") {
					text, _ := os.ReadFile(m.HostPath)
					hosts = string(text)
				}
			}
			return runtimetest.TestProgram(c)
		}
	}

	inBubble(t, func(b *fakeNode) {
		p := aPod("pod", "sleep")
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "IP",
			ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		b.cluster.create(p)
		b.untilReady(time.Minute, "pod")

		st := b.cluster.get("pod").Status
		if !strings.HasPrefix(st.PodIP, "10.97.") || st.HostIP != "10.98.0.1" {
			t.Errorf("the pod has the address %s on the host %s, want the runtime's on 10.98.0.1", st.PodIP, st.HostIP)
		}
		mu.Lock()
		defer mu.Unlock()
		if env != st.PodIP {
			t.Errorf("the program is told the address %q, want %s", env, st.PodIP)
		}
		if !strings.HasPrefix(hosts, "# Kubernetes-managed hosts file (host network).\n") {
			t.Errorf("hosts file:\n%s", hosts)
		}
	}, watch)
}
