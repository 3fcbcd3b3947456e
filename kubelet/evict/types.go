package evict

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Desired is what the configuration asks for.
type Desired struct {
	// Thresholds in the order of the configuration. One of memory is reclaimed for before others.
	Thresholds []Threshold
	// Transition is how long a condition of the node stays true after its last threshold was met again.
	Transition time.Duration
	// MaxGrace bounds the time that a pod gets to end because of a soft threshold.
	MaxGrace time.Duration
	// LocalLimits enforces the limits of local storage.
	LocalLimits bool
}

// Left is what is left of the node.
type Left struct {
	// Levels by signal. A signal that is not there is unknown.
	Levels map[string]Level
	// ImagesApart says that images are on a file system of their own (imagefs), LayersApart that the writable layers
	// of containers are not with them but on the node's own.
	ImagesApart, LayersApart bool
}

// Observed is what was read from the node and its pods.
type Observed struct {
	Left
	// Pods are those of which something is still on the node. An evicted pod is waited for while it is among them.
	Pods []Pod
	// Measured says that Pods have the usage that Plan asked for in Needs. Reclaimed says that what Needs named was
	// given back, and that Levels were read after that.
	Measured, Reclaimed bool
}

// Level is how much is left of something, and how much there is in all. Whole is 0 where the machine does not count it.
type Level struct {
	Left, Whole uint64
	At          time.Time
}

// Pod is a pod of which something is still on the node. Usage is nil if it is not known.
type Pod struct {
	*v1.Pod
	Usage *Usage
}

// ended reports whether no container of the pod runs any more: what is left of it is being removed.
func (p *Pod) ended() bool {
	return p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded
}

// Usage is what a pod uses now. Memory is the working set; nil if it is not known.
type Usage struct {
	Memory     *uint64
	Processes  uint64
	Containers []ContainerUsage
	// Volumes on the node's disk that are removed with the pod.
	Volumes []VolumeUsage
	// Files is what the files take that the kubelet made for the pod and that its containers can write; FileObjects
	// are their inodes.
	Files, FileObjects uint64
}

// ContainerUsage is what one container uses. Memory, Layer and Logs are nil if they are not known.
type ContainerUsage struct {
	Name         string
	Memory       *uint64
	Layer, Logs  *uint64 // bytes of the writable layer, and of the log files
	LayerObjects uint64  // inodes
	LogObjects   uint64
}

// VolumeUsage is what one volume takes.
type VolumeUsage struct {
	Name           string
	Bytes, Objects uint64
}

// Reclaim is what can be given back without ending a pod.
type Reclaim struct {
	// Containers are those that have ended and are kept for their logs; Images those that no container uses.
	Containers, Images bool
}

// Needs is what Plan has to know, or have done, before it can go on in this round. The zero value is nothing.
type Needs struct {
	Reclaim
	// Usage of all pods, or else UsageOf of those with a limit of local storage.
	Usage   bool
	UsageOf []types.UID
}

// None reports whether the round is complete.
func (n Needs) None() bool { return n.Reclaim == Reclaim{} && !n.Usage && len(n.UsageOf) == 0 }

// Eviction ends a pod.
type Eviction struct {
	Pod     *v1.Pod
	Grace   time.Duration
	Message string
	// Signal names the cause in metrics. Age is how old the level was that led to it, negative for a limit of the
	// pod's own.
	Signal string
	Age    time.Duration
	// Annotations of the event.
	Annotations map[string]string
	// Disruption says that the pod's status gets the condition DisruptionTarget.
	Disruption bool
}

// Plan is what a round decides.
type Plan struct {
	// Conditions are those of the node that are true.
	Conditions map[v1.NodeConditionType]bool
	// Starved is the resource that the node runs out of, if something has to be done about it.
	Starved v1.ResourceName
	Needs   Needs
	// Evictions is empty as long as Needs names anything that has to come first.
	Evictions []Eviction
	// Stuck says that a pod should end and none may.
	Stuck bool
}

// String prints the plan, one line for each operation, conditions first.
func (p Plan) String() string {
	var b strings.Builder
	for _, c := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if p.Conditions[c] {
			fmt.Fprintf(&b, "condition %s\n", c)
		}
	}
	if p.Starved != "" {
		fmt.Fprintf(&b, "starved of %s\n", p.Starved)
	}

	if p.Needs.Containers {
		b.WriteString("reclaim ended containers\n")
	}
	if p.Needs.Images {
		b.WriteString("reclaim unused images\n")
	}
	if p.Needs.Usage {
		b.WriteString("measure all pods\n")
	}
	if len(p.Needs.UsageOf) > 0 {
		fmt.Fprintf(&b, "measure %v\n", p.Needs.UsageOf)
	}

	for _, e := range p.Evictions {
		fmt.Fprintf(&b, "evict %s grace=%v signal=%s disruption=%v: %s\n", e.Pod.Name, e.Grace, e.Signal, e.Disruption,
			e.Message)
		for _, k := range []string{offendingPod, offendingPodUsage, offendingContainers, offendingUsage,
			starvedResource} {
			if v, ok := e.Annotations[k]; ok {
				fmt.Fprintf(&b, "  %s=%s\n", k, v)
			}
		}
	}
	if p.Stuck {
		b.WriteString("no pod may be evicted\n")
	}
	return b.String()
}
