package pod

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// Entry is one line of a log of facts: a fact that was taken, or a plan that was made. From a whole log the pod can be
// played again, see Replay. What is not recorded: texts for people (the messages of errors, events, containers and
// hooks may hold anything), and of the pod all but what this package reads of it. Commands, arguments and environment
// variables are never part of a log.
type Entry struct {
	At time.Time `json:"at"`
	// Type is the name of the fact's type, or one of the types below.
	Type string          `json:"type"`
	Fact json.RawMessage `json:"fact,omitempty"`
	// Node and Plan belong to a plan: what the node contributed, and Plan.Describe.
	Node *Node  `json:"node,omitempty"`
	Plan string `json:"plan,omitempty"`
	// Count is the number of entries that were dropped.
	Count int `json:"count,omitempty"`
}

// Types of entries that are no facts.
const (
	PlanEntry    = "plan"
	DroppedEntry = "dropped" // the oldest entries are missing here: the log is full
)

// FactEntry returns the line of a fact, with its line end.
func FactEntry(f Fact, at time.Time) ([]byte, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encoding a fact %T: %w", f, err)
	}
	return encodeLine(Entry{At: at, Type: typeName(f), Fact: text})
}

// NewPlanEntry returns the line of a plan, with its line end.
func NewPlanEntry(n Node, p *Plan, at time.Time) ([]byte, error) {
	if n.NetworkNotReady != "" {
		n.NetworkNotReady = "not recorded"
	}
	return encodeLine(Entry{At: at, Type: PlanEntry, Node: &n, Plan: p.Describe(at)})
}

// NewDroppedEntry returns the line that replaces that number of older ones.
func NewDroppedEntry(count int, at time.Time) ([]byte, error) {
	return encodeLine(Entry{At: at, Type: DroppedEntry, Count: count})
}

func encodeLine(e Entry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding an entry: %w", err)
	}
	return append(text, '\n'), nil
}

func typeName(f Fact) string { return reflect.Indirect(reflect.ValueOf(f)).Type().Name() }

// allFacts has one value of each type of fact, for the log.
var allFacts = []Fact{
	Desired{}, SourceGone{}, SourcesReady{}, Admitted{}, Refused{}, Stripped{}, NodeShutdown{}, Evicted{}, Reclaimed{},
	Observed{}, Checked{}, Removed{},
	ActionStarted{}, ActionDropped{}, TaskPanicked{},
	VolumesPrepared{}, VolumesFailed{}, SandboxMade{}, SandboxFailed{}, ImagePresent{}, ImageFailed{},
	ContainerStarted{}, StartFailed{}, HookDone{}, HookFailed{},
	ContainerStopped{}, StopFailed{}, SandboxStopped{}, SandboxStopFailed{}, RemoveDone{}, RemoveFailed{}, CleanedUp{},
	CleanupFailed{},
	Probed{}, ProbeAdopted{},
	Recalled{}, ResizeAgreed{}, ResizeRefused{}, ResizeSettled{}, Resized{},
	StopBegan{}, Published{}, EventsSent{},
}

// factTypes are the types of facts by their names.
var factTypes = func() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, f := range allFacts {
		out[typeName(f)] = reflect.TypeOf(f)
	}
	return out
}()

// decode reads the fact of an entry.
func (e *Entry) decode() (Fact, error) {
	t, ok := factTypes[e.Type]
	if !ok {
		return nil, fmt.Errorf("there is no fact %s", e.Type)
	}
	v := reflect.New(t)
	if err := json.Unmarshal(e.Fact, v.Interface()); err != nil {
		return nil, fmt.Errorf("decoding a fact %s: %w", e.Type, err)
	}
	return v.Elem().Interface().(Fact), nil
}

// MarshalJSON writes only what may be recorded of the pod.
func (f Desired) MarshalJSON() ([]byte, error) {
	type plain Desired
	f.Pod = recordable(f.Pod)
	return json.Marshal(plain(f))
}

// MarshalJSON writes only what may be recorded of the pod.
func (f SourceGone) MarshalJSON() ([]byte, error) {
	type plain SourceGone
	f.Pod = recordable(f.Pod)
	return json.Marshal(plain(f))
}

// recordable returns what may be recorded of a pod, which is all that this package reads of it.
func recordable(p *v1.Pod) *v1.Pod {
	if p == nil {
		return nil
	}

	out := &v1.Pod{}
	out.Name, out.Namespace, out.UID, out.Generation = p.Name, p.Namespace, p.UID, p.Generation
	out.DeletionTimestamp, out.DeletionGracePeriodSeconds = p.DeletionTimestamp, p.DeletionGracePeriodSeconds
	out.Labels, out.Annotations = fingerprint(p.Labels), fingerprint(p.Annotations)

	out.Spec = v1.PodSpec{RestartPolicy: p.Spec.RestartPolicy,
		TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds,
		ActiveDeadlineSeconds:         p.Spec.ActiveDeadlineSeconds, HostNetwork: p.Spec.HostNetwork,
		ReadinessGates: p.Spec.ReadinessGates,
		Resources:      p.Spec.Resources}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		out.Spec.Volumes = append(out.Spec.Volumes,
			v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{Image: v.Image}})
	}

	for c := range desired.Init(p) {
		out.Spec.InitContainers = append(out.Spec.InitContainers, recordableContainer(c))
	}
	for c := range desired.Apps(p) {
		out.Spec.Containers = append(out.Spec.Containers, recordableContainer(c))
	}
	for i := range p.Spec.EphemeralContainers {
		c := v1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		out.Spec.EphemeralContainers = append(out.Spec.EphemeralContainers, v1.EphemeralContainer{
			EphemeralContainerCommon: v1.EphemeralContainerCommon(recordableContainer(&c)),
			TargetContainerName:      p.Spec.EphemeralContainers[i].TargetContainerName})
	}

	out.Status = recordableStatus(&p.Status)
	return out
}

// recordableContainer returns what may be recorded of a container: enough to plan the same again, and no commands,
// environment, or addresses. Probes and hooks become empty ones, because plans depend only on whether there is one.
func recordableContainer(c *v1.Container) v1.Container {
	probe := func(p *v1.Probe) *v1.Probe {
		if p == nil {
			return nil
		}
		return &v1.Probe{TerminationGracePeriodSeconds: p.TerminationGracePeriodSeconds}
	}

	handler := func(h *v1.LifecycleHandler) *v1.LifecycleHandler {
		if h == nil {
			return nil
		}
		return &v1.LifecycleHandler{}
	}

	out := v1.Container{Name: c.Name, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, Resources: c.Resources,
		ResizePolicy:  c.ResizePolicy,
		RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
		LivenessProbe: probe(c.LivenessProbe), ReadinessProbe: probe(c.ReadinessProbe),
		StartupProbe: probe(c.StartupProbe)}
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		out.VolumeMounts = append(out.VolumeMounts,
			v1.VolumeMount{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly,
				RecursiveReadOnly: m.RecursiveReadOnly})
	}

	if c.Lifecycle != nil {
		out.Lifecycle = &v1.Lifecycle{PostStart: handler(c.Lifecycle.PostStart), PreStop: handler(c.Lifecycle.PreStop)}
	}
	return out
}

// recordableStatus returns a status without its messages.
func recordableStatus(st *v1.PodStatus) v1.PodStatus {
	out := *st.DeepCopy()
	out.Message = ""
	for i := range out.Conditions {
		out.Conditions[i].Message = ""
	}
	for _, list := range [][]v1.ContainerStatus{out.InitContainerStatuses, out.ContainerStatuses,
		out.EphemeralContainerStatuses} {
		for i := range list {
			for _, state := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Waiting != nil {
					state.Waiting.Message = ""
				}
				if state.Terminated != nil {
					state.Terminated.Message = ""
				}
			}
		}
	}
	return out
}

// fingerprintSeed differs between processes, so that a value cannot be found by hashing guesses.
var fingerprintSeed = maphash.MakeSeed()

// fingerprint stands for labels or annotations in a log: it differs if they differ, but their values cannot be read
// from it. Annotations can hold whole specs with their secrets.
func fingerprint(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&h, "%q=%q\n", key, m[key])
	}
	return map[string]string{"fingerprint": fmt.Sprintf("%016x", h.Sum64())}
}
