package volume

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// claimKind is the kind of volumes that come from a claim or from a storage driver: what they are is known only after
// the claim was read. Volumes of types that became drivers are among them.
type claimKind struct{ noFolder }

func (claimKind) of(v *v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil ||
		translation.New().IsInlineMigratable(v)
}

func (claimKind) path(j job) (string, error) { return j.storage.Path(j.pod, j.volume.Name) }

// prepare hands a claim of a hostPath PersistentVolume to the kind hostPath: host is not nil then.
func (claimKind) prepare(ctx context.Context, j job) error {
	host, err := j.storage.Prepare(ctx, j.pod, j.volume)
	if err != nil || host == nil {
		return err
	}
	return hostPathKind{}.prepare(ctx, hostPathOf(j, host))
}

// hostPathOf returns the job of the host path that a volume of a claim is.
func hostPathOf(j job, host *v1.HostPathVolumeSource) job {
	j.volume = &v1.Volume{Name: j.volume.Name, VolumeSource: v1.VolumeSource{HostPath: host}}
	return j
}

// beforeStart checks a volume that is a host path.
func (claimKind) beforeStart(j job) error {
	host := j.storage.HostPath(j.pod.UID, j.volume.Name)
	if host == nil {
		return nil
	}
	return hostPathKind{}.beforeStart(hostPathOf(j, host))
}

func (claimKind) usage(_ context.Context, j job) (measure.Usage, bool) {
	return j.storage.Usage(j.pod, j.volume.Name)
}

// claimPeriod is the time between two looks at the claims of a pod (upstream looks with each sync of a pod, every 60
// to 90 s).
const claimPeriod = 75 * time.Second

// keepClaims prepares the volumes of drivers again from time to time, until ctx ends: a claim may have grown, and some
// drivers want to be called again. What is right stays as it is.
func (m *Manager) keepClaims(ctx context.Context, p *podVolumes) {
	for wakeup.Pause(ctx, claimPeriod) {
		p.mu.Lock()
		pod, facts, ready := p.pod, p.facts, p.ready
		p.mu.Unlock()
		if !ready {
			continue // Prepare is still at it
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if _, ok := kindOf(v).(claimKind); !ok {
				continue
			}
			err := m.job(p, pod, facts, v).prepare(ctx)
			if err == nil || ctx.Err() != nil {
				continue
			}
			klog.FromContext(ctx).Error(err, "Refreshing a volume failed", "pod", klog.KObj(pod), "volume", v.Name)
			if m.opts.Failed != nil {
				m.opts.Failed(pod, &Error{Volume: v.Name, Err: err})
			}
		}
	}
}

// hasClaims reports whether a pod has volumes that come from claims or drivers.
func hasClaims(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if _, ok := kindOf(&pod.Spec.Volumes[i]).(claimKind); ok {
			return true
		}
	}
	return false
}

// ObserveNode takes a version of this node's object. It does not block.
func (m *Manager) ObserveNode(n *v1.Node) { m.storage.ObserveNode(n) }

// VolumesInUse lists what the node's status says is in use: volumes that must not be detached.
func (m *Manager) VolumesInUse() []v1.UniqueVolumeName { return m.storage.InUse() }

// Groups lists the groups that the pod's volumes name and its spec does not. Prepare must have found out what the
// volumes are.
func (m *Manager) Groups(p *v1.Pod) []int64 {
	return m.storage.Groups(p)
}

// Sweep unstages volumes that no pod uses any more. Call it when all pods of the node are known.
func (m *Manager) Sweep(ctx context.Context) { m.storage.Sweep(ctx) }
