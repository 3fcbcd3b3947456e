package evict

import (
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// Refuse returns why a node with these conditions takes no new pod; empty if it takes it. It takes critical pods
// always. With no more than memory pressure it takes those that asked for resources, and those that tolerate the taint
// of that pressure.
func Refuse(p *v1.Pod, conditions map[v1.NodeConditionType]bool) string {
	var list []v1.NodeConditionType
	for _, c := range []v1.NodeConditionType{v1.NodeDiskPressure, v1.NodeMemoryPressure, v1.NodePIDPressure} {
		if conditions[c] {
			list = append(list, c)
		}
	}
	if len(list) == 0 || desired.IsCritical(p) {
		return ""
	}
	if len(list) == 1 && list[0] == v1.NodeMemoryPressure {
		taint := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
		if p.Status.QOSClass != v1.PodQOSBestEffort ||
			corehelpers.TolerationsTolerateTaint(logr.Discard(), p.Spec.Tolerations, &taint, false) {
			return ""
		}
	}
	return fmt.Sprintf("The node had condition: %v. ", list)
}
