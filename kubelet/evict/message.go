package evict

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reason is that of a pod's status and event when it was evicted, or refused because the node is under pressure.
const Reason = "Evicted"

// Annotations of the event, as upstream names them.
const (
	offendingContainers = "offending_containers"
	offendingUsage      = "offending_containers_usage"
	offendingPod        = "offending_pod"
	offendingPodUsage   = "offending_pod_usage"
	starvedResource     = "starved_resource"
)

func emptyDirMessage(volume string, limit *resource.Quantity) string {
	return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", volume, limit.String())
}

func podMessage(limit *resource.Quantity) string {
	return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
}

func containerMessage(name string, limit *resource.Quantity) string {
	return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", name, limit.String())
}

// words returns why a pod is evicted for a resource, and the annotations of its event.
func (r *round) words(what v1.ResourceName, p *Pod) (string, map[string]string) {
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. ", what)
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		l, known := r.o.Levels[t.Signal]
		if known && r.after.acting[t.key()] && signals[t.Signal].resource == what {
			fmt.Fprintf(&b, "Threshold quantity: %s, available: %s. ", t.quantity(l), number(what, l.Left))
			break
		}
	}
	notes := map[string]string{}
	if p.Usage == nil {
		return b.String(), notes
	}

	if whole := p.Spec.Resources; what == v1.ResourceMemory && whole != nil && p.Usage.Memory != nil {
		if request, ok := whole.Requests[what]; ok {
			used := number(what, *p.Usage.Memory)
			fmt.Fprintf(&b, "Pod %s was using %s, request is %s, has larger consumption of %s. ", p.Name, used,
				request.String(), what)
			notes[offendingPod] = p.Name
			notes[offendingPodUsage] = used
		}
	}

	var names, amounts []string
	for _, u := range p.Usage.Containers {
		request, spec := requestOf(p.Pod, u.Name, what)
		used := usedBy(&u, what)
		if !spec || used == nil || int64(*used) <= request.Value() {
			continue
		}
		text := number(what, *used)
		fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", u.Name, text,
			request.String(), what)
		names = append(names, u.Name)
		amounts = append(amounts, text)
	}
	notes[offendingContainers] = strings.Join(names, ",")
	notes[offendingUsage] = strings.Join(amounts, ",")
	notes[starvedResource] = string(what)
	return b.String(), notes
}

// requestOf returns what a container asked for. ok is false for one that the spec does not have, or that can ask for
// nothing: an ephemeral one.
func requestOf(p *v1.Pod, name string, what v1.ResourceName) (request resource.Quantity, ok bool) {
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c v1.Container) bool { return c.Name == name }); i >= 0 {
			return list[i].Resources.Requests[what], true
		}
	}
	return request, false
}

// usedBy returns what a container uses of a resource; nil if that is not known, or not counted by container.
func usedBy(u *ContainerUsage, what v1.ResourceName) *uint64 {
	switch {
	case what == v1.ResourceMemory:
		return u.Memory
	case what == v1.ResourceEphemeralStorage && u.Layer != nil && u.Logs != nil:
		both := *u.Layer + *u.Logs
		return &both
	}
	return nil
}

// quantity returns the least that must be left of a whole, as it was configured or else as a number.
func (t *Threshold) quantity(l Level) string {
	return number(signals[t.Signal].resource, t.Least.of(l.Whole))
}

// number prints an amount of a resource: bytes with binary suffixes, other things with decimal ones.
func number(what v1.ResourceName, n uint64) string {
	format := resource.DecimalSI
	if what == v1.ResourceMemory || what == v1.ResourceEphemeralStorage {
		format = resource.BinarySI
	}
	return resource.NewQuantity(int64(n), format).String()
}
