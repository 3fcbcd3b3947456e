package runtime

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func runs(args ...string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) { s.Containers[0].Args = args }
}

func initContainer(name string, args ...string) v1.Container {
	return v1.Container{Name: name, Image: testImage, Args: args}
}

func execHandler(args ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: append([]string{`C:\testapp.exe`}, args...)}}
}

func execProbe(args ...string) *v1.Probe {
	return &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10,
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: append([]string{`C:\testapp.exe`}, args...)}}}
}

// trials are the pods. No pod needs another.
func trials() []trial {
	return slices.Concat(endTrials(), initTrials(), probeTrials(), hookTrials(), volumeTrials(), refusedTrials())
}

// endTrials: programs that end, restart policies, and last words.
func endTrials() []trial {
	logs := [][]string{{"logs", "POD", "--all-containers", "--prefix=false"}}

	return []trial{
		{name: "succeeds", spec: runs("echo", "done"), settled: settledEnd, ask: logs,
			seen: []string{"Completed 0", "done"}},
		{name: "fails", spec: runs("exit", "3"), settled: settledEnd, ask: logs, seen: []string{"Error 3"}},
		{name: "wide-code", spec: runs("exit", "3221225786"), settled: settledEnd, seen: []string{"-1073741510"}},
		{name: "restarts", settled: func(p *v1.Pod) bool {
			return settledWaiting("CrashLoopBackOff")(p) && p.Status.ContainerStatuses[0].RestartCount > 0
		},
			spec: func(s *v1.PodSpec) {
				s.Containers[0].Args, s.RestartPolicy = []string{"exit", "7"}, v1.RestartPolicyAlways
			}, seen: []string{"Error 7", "CrashLoopBackOff"}},
		{name: "on-failure", spec: func(s *v1.PodSpec) {
			s.Containers[0].Args, s.RestartPolicy = []string{"echo", "once"}, v1.RestartPolicyOnFailure
		},
			settled: settledEnd, seen: []string{"Completed 0"}},
		{name: "last-words", spec: runs("write", `C:\dev\termination-log`, "bye"), settled: settledEnd,
			seen: []string{"Completed 0"}},
		{name: "last-log", settled: settledEnd, seen: []string{"no command"}, spec: func(s *v1.PodSpec) {
			s.Containers[0].Args, s.Containers[0].TerminationMessagePolicy = []string{"nonsense"},
				v1.TerminationMessageFallbackToLogsOnError
		}},
		{name: "last-file", settled: settledEnd, seen: []string{"elsewhere"}, spec: func(s *v1.PodSpec) {
			s.Containers[0].Args, s.Containers[0].TerminationMessagePath = []string{"write", `C:\last\words`,
				"elsewhere"}, `C:\last\words`
		}},
		{name: "two-end", settled: settledEnd, seen: []string{"Error 4", "Completed 0"}, spec: func(s *v1.PodSpec) {
			s.Containers[0].Args = []string{"exit", "4"}
			s.Containers = append(s.Containers, initContainer("second", "echo", "well"))
		}},
	}
}

func initTrials() []trial {
	always := v1.ContainerRestartPolicyAlways
	return []trial{
		{name: "init", settled: settledReady,
			ask: [][]string{{"logs", "POD", "-c", "one"},
				{"exec", "POD", "--", `C:\testapp.exe`, "cat", `C:\shared\file`}},
			seen: []string{"first", "from init"}, spec: func(s *v1.PodSpec) {
				s.Volumes = []v1.Volume{{Name: "shared",
					VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
				mounts := []v1.VolumeMount{{Name: "shared", MountPath: `C:\shared`}}
				s.InitContainers = []v1.Container{initContainer("one", "echo", "first"),
					initContainer("two", "write", `C:\shared\file`, "from", "init")}
				s.InitContainers[1].VolumeMounts, s.Containers[0].VolumeMounts = mounts, mounts
			}},
		{name: "init-fails", settled: settledEnd, seen: []string{"Error 5"},
			spec: func(s *v1.PodSpec) { s.InitContainers = []v1.Container{initContainer("one", "exit", "5")} }},
		{name: "init-crashes", settled: settledWaiting("CrashLoopBackOff"),
			seen: []string{"Error 5", "CrashLoopBackOff"}, spec: func(s *v1.PodSpec) {
				s.RestartPolicy, s.InitContainers = v1.RestartPolicyAlways, []v1.Container{initContainer("one", "exit",
					"5")}
			}},
		{name: "sidecar", settled: settledEnd, seen: []string{"Completed 0"}, spec: func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{initContainer("beside", "serve", "--http", ":8081", "--tcp", "", "--udp",
				"")}
			s.InitContainers[0].RestartPolicy = &always
			s.Containers[0].Args = []string{"sleep", "7"}
		}},
	}
}

func probeTrials() []trial {
	return []trial{
		{name: "ready", settled: settledReady, spec: func(s *v1.PodSpec) {
			s.Containers[0].StartupProbe, s.Containers[0].ReadinessProbe = execProbe("exit", "0"), execProbe("exit",
				"0")
		}, seen: []string{`"phase": "Running"`},
			ask: [][]string{{"exec", "POD", "--", `C:\testapp.exe`, "exit", "9"},
				{"exec", "POD", "--", `C:\testapp.exe`, "echo", "hello"}}},
		{name: "http-ready", settled: settledReady, seen: []string{`"phase": "Running"`}, spec: func(s *v1.PodSpec) {
			s.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1,
				ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(80)}}}
			s.Containers[0].LivenessProbe = &v1.Probe{PeriodSeconds: 1,
				ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(7)}}}
		}},
		{name: "unready", spec: func(s *v1.PodSpec) { s.Containers[0].ReadinessProbe = execProbe("exit", "1") },
			seen: []string{"ContainersNotReady"},
			settled: func(p *v1.Pod) bool {
				return p.Status.Phase == v1.PodRunning && p.Status.ContainerStatuses[0].State.Running != nil &&
					p.Status.PodIP != ""
			}},
		{name: "not-alive", seen: []string{"CrashLoopBackOff"}, settled: settledWaiting("CrashLoopBackOff"),
			spec: func(s *v1.PodSpec) {
				s.RestartPolicy = v1.RestartPolicyAlways
				s.Containers[0].LivenessProbe = execProbe("exit", "1")
				s.Containers[0].LivenessProbe.FailureThreshold = 1
			}},
	}
}

func hookTrials() []trial {
	return []trial{
		{name: "post-start", settled: settledReady, seen: []string{"from hook"},
			ask: [][]string{{"exec", "POD", "--", `C:\testapp.exe`, "cat", `C:\hook`}},
			spec: func(s *v1.PodSpec) {
				s.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHandler("write", `C:\hook`, "from", "hook")}
			}},
		// the program ends well when it is stopped
		{name: "post-start-fails", settled: settledEnd, seen: []string{`"phase": "Succeeded"`},
			spec: func(s *v1.PodSpec) {
				s.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHandler("exit", "6")}
			}},
	}
}

func volumeTrials() []trial {
	cat := func(file string) []string { return []string{"exec", "POD", "--", `C:\testapp.exe`, "cat", file} }

	return []trial{
		{name: "env", settled: settledEnd, ask: [][]string{{"logs", "POD"}},
			seen: []string{"Completed 0", "green\nround\nenv\ngreen-and-env\n2\n"}, spec: func(s *v1.PodSpec) {
				s.Containers[0].Args = []string{"env", "COLOR", "HIDDEN", "NAME", "BOTH", "CPU"}
				s.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")}
				things := v1.LocalObjectReference{Name: "things"}
				s.Containers[0].Env = []v1.EnvVar{
					{Name: "COLOR",
						ValueFrom: &v1.EnvVarSource{
							ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: things, Key: "color"}}},
					{Name: "HIDDEN",
						ValueFrom: &v1.EnvVarSource{
							SecretKeyRef: &v1.SecretKeySelector{
								LocalObjectReference: v1.LocalObjectReference{Name: "hidden"}, Key: "shape"}}},
					{Name: "NAME",
						ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
					{Name: "BOTH", Value: "$(COLOR)-and-$(NAME)"},
					{Name: "CPU",
						ValueFrom: &v1.EnvVarSource{
							ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}}},
				}
			}},
		{name: "volumes", settled: settledReady, seen: []string{"green", "round", "trial"},
			ask: [][]string{cat(`C:\things\color`), cat(`C:\hidden\shape`), cat(`C:\down\labels`)},
			spec: func(s *v1.PodSpec) {
				s.Volumes = []v1.Volume{
					{Name: "things",
						VolumeSource: v1.VolumeSource{
							ConfigMap: &v1.ConfigMapVolumeSource{
								LocalObjectReference: v1.LocalObjectReference{Name: "things"}}}},
					{Name: "hidden",
						VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "hidden"}}},
					{Name: "down",
						VolumeSource: v1.VolumeSource{
							DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
								{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}},
				}
				s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "things", MountPath: `C:\things`},
					{Name: "hidden", MountPath: `C:\hidden`}, {Name: "down", MountPath: `C:\down`}}
			}},
		{name: "sub-path", settled: settledReady, seen: []string{"from init"}, ask: [][]string{cat(`C:\part\file`)},
			spec: func(s *v1.PodSpec) {
				s.Volumes = []v1.Volume{{Name: "data",
					VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
				s.InitContainers = []v1.Container{initContainer("one", "write", `C:\part\file`, "from", "init")}
				s.InitContainers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: `C:\part`,
					SubPath: "part"}}
				s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: `C:\part`, SubPath: "part"}}
			}},
	}
}

// refusedTrials cannot run as they are.
func refusedTrials() []trial {
	return []trial{
		{name: "no-image", settled: settledWaiting("ErrImageNeverPull"), seen: []string{"ErrImageNeverPull"},
			spec: func(s *v1.PodSpec) {
				s.Containers[0].Image, s.Containers[0].ImagePullPolicy = "porthole/none:1", v1.PullNever
			}},
		{name: "no-config", settled: settledWaiting("CreateContainerConfigError"),
			seen: []string{"CreateContainerConfigError"}, spec: func(s *v1.PodSpec) {
				s.Containers[0].Env = []v1.EnvVar{{Name: "X",
					ValueFrom: &v1.EnvVarSource{
						ConfigMapKeyRef: &v1.ConfigMapKeySelector{
							LocalObjectReference: v1.LocalObjectReference{Name: "missing"}, Key: "x"}}}}
			}},
		{name: "no-program", settled: settledEnd, seen: []string{"StartError 128"},
			spec: func(s *v1.PodSpec) { s.Containers[0].Command = []string{`C:\none.exe`} }},
	}
}
