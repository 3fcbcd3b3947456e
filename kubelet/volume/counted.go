package volume

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/podcert"
)

// measure counts what was done about a volume.
func (m *Manager) measure(plugin, operation string, began time.Time, err error) {
	if m.opts.Measure != nil {
		m.opts.Measure(plugin, operation, time.Since(began), err)
	}
}

// setMade notes whether a volume is there. first reports whether it is for the first time.
func (p *podVolumes) setMade(name string, made bool) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, before := p.made[name]
	if made || before {
		p.made[name] = made
	}
	return made && !before
}

// pluginOf returns upstream's name of a volume's type, N/A if it is not known.
func (m *Manager) pluginOf(pod *v1.Pod, v *v1.Volume) string {
	switch k := kindOf(v).(type) {
	case nil:
		return "N/A"
	case hostPathKind:
		return "kubernetes.io/host-path"
	case imageKind:
		return "kubernetes.io/image"
	case claimKind:
		return m.storage.PluginOf(pod, v)
	default:
		return strings.Replace(k.plugin(), "~", "/", 1)
	}
}

// each calls do for each pod that was prepared, with its lock held.
func (m *Manager) each(do func(p *podVolumes)) {
	m.mu.Lock()
	list := make([]*podVolumes, 0, len(m.pods))
	for _, p := range m.pods {
		list = append(list, p)
	}
	m.mu.Unlock()

	for _, p := range list {
		p.mu.Lock()
		do(p)
		p.mu.Unlock()
	}
}

// Count returns the numbers of volumes by upstream's name of their type and by state: desired_state_of_world for those
// that pods want, actual_state_of_world for those of them that are there.
func (m *Manager) Count() map[[2]string]int {
	out := map[[2]string]int{}
	m.each(func(p *podVolumes) {
		for i := range p.pod.Spec.Volumes {
			v := &p.pod.Spec.Volumes[i]
			plugin := m.pluginOf(p.pod, v)
			out[[2]string{plugin, "desired_state_of_world"}]++
			if p.made[v.Name] {
				out[[2]string{plugin, "actual_state_of_world"}]++
			}
		}
	})
	return out
}

// Certificates counts the certificates in projected volumes of the kind podCertificate, for the metric
// kubelet_podcertificate_states. The keys are the signer's name and the state, which is one of upstream's:
// not_yet_issued, fresh, overdue_for_refresh, expired, denied, failed.
func (m *Manager) Certificates() map[[2]string]int {
	out := map[[2]string]int{}
	m.each(func(p *podVolumes) {
		for i := range p.pod.Spec.Volumes {
			v := &p.pod.Spec.Volumes[i]
			if v.Projected == nil {
				continue
			}
			for n := range v.Projected.Sources {
				if c := v.Projected.Sources[n].PodCertificate; c != nil {
					out[[2]string{c.SignerName, p.certs.StateOf(podcert.Key{Volume: v.Name, Index: n}, m.opts.Now())}]++
				}
			}
		}
	})
	return out
}
