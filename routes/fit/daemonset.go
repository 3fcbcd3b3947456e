package fit

import appsv1 "k8s.io/api/apps/v1"

// FromDaemonSet keeps what Advise needs of a DaemonSet.
func FromDaemonSet(d appsv1.DaemonSet) Workload {
	pod := d.Spec.Template.Spec
	w := Workload{Namespace: d.Namespace, Name: d.Name, NodeSelector: pod.NodeSelector}
	w.Affinity = pod.Affinity != nil && pod.Affinity.NodeAffinity != nil
	for _, c := range pod.Containers {
		w.Args = append(append(w.Args, c.Command...), c.Args...)
	}
	return w
}
