package static

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// setDefaults fills in what the API server fills in for other pods (k8s.io/kubernetes pkg/apis/core/v1/defaults.go of
// 1.36.3, which other modules cannot import), as far as a static pod can have it.
func setDefaults(p *v1.Pod) {
	s := &p.Spec
	or(&s.DNSPolicy, v1.DNSClusterFirst)
	or(&s.RestartPolicy, v1.RestartPolicyAlways)
	or(&s.SchedulerName, v1.DefaultSchedulerName)
	orPtr(&s.SecurityContext, v1.PodSecurityContext{})
	orPtr(&s.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	orPtr(&s.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i])
	}
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			defaultContainer(&list[i], s.HostNetwork)
		}
	}
}

func or[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func orPtr[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// defaultVolume fills in the volume. One without any source is an emptyDir, as in the API server.
func defaultVolume(v *v1.Volume) {
	if v.VolumeSource == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		orPtr(&v.HostPath.Type, v1.HostPathUnset)
	}
	if v.DownwardAPI != nil {
		orPtr(&v.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		defaultFields(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		orPtr(&v.Projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
		for i := range v.Projected.Sources {
			if d := v.Projected.Sources[i].DownwardAPI; d != nil {
				defaultFields(d.Items)
			}
		}
	}
	if v.Image != nil {
		or(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func defaultFields(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		if f := items[i].FieldRef; f != nil {
			or(&f.APIVersion, "v1")
		}
	}
}

// defaultContainer fills in the container. A pod on the node's network uses its container ports on the node, so they
// are its host ports too. A limit without a request is also the request.
func defaultContainer(c *v1.Container, hostNetwork bool) {
	or(&c.ImagePullPolicy, pullPolicy(c.Image))
	or(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	or(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		or(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			or(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}

	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			or(&from.FieldRef.APIVersion, "v1")
		}
	}

	for name, limit := range c.Resources.Limits {
		if c.Resources.Requests == nil {
			c.Resources.Requests = v1.ResourceList{}
		}
		if _, ok := c.Resources.Requests[name]; !ok {
			c.Resources.Requests[name] = limit.DeepCopy()
		}
	}

	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			defaultProbe(probe)
		}
	}

	if c.Lifecycle != nil {
		for _, h := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil && h.HTTPGet != nil {
				defaultHTTP(h.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *v1.Probe) {
	or(&p.TimeoutSeconds, 1)
	or(&p.PeriodSeconds, 10)
	or(&p.SuccessThreshold, 1)
	or(&p.FailureThreshold, 3)
	if p.HTTPGet != nil {
		defaultHTTP(p.HTTPGet)
	}
	if p.GRPC != nil {
		orPtr(&p.GRPC.Service, "")
	}
}

func defaultHTTP(h *v1.HTTPGetAction) {
	or(&h.Path, "/")
	or(&h.Scheme, v1.URISchemeHTTP)
}

// pullPolicy returns Always for the tag latest and for an image without a tag, otherwise IfNotPresent.
func pullPolicy(image string) v1.PullPolicy {
	last := image[strings.LastIndex(image, "/")+1:]
	if strings.Contains(last, "@") {
		return v1.PullIfNotPresent
	}
	_, tag, ok := strings.Cut(last, ":")
	if !ok || tag == "latest" {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// class returns the QoS class of a pod: Guaranteed if every container has equal requests and limits of cpu and memory,
// BestEffort if none has any, otherwise Burstable. If the pod as a whole has resources, only these count.
func class(p *v1.Pod) v1.PodQOSClass {
	var all []v1.ResourceRequirements
	if r := p.Spec.Resources; r != nil && len(r.Limits)+len(r.Requests) > 0 {
		all = append(all, *r)
	} else {
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				all = append(all, list[i].Resources)
			}
		}
	}

	some, equal := false, true
	for _, r := range all {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request := positive(r.Requests, name)
			limit := positive(r.Limits, name)
			some = some || request != nil || limit != nil
			if limit == nil || request != nil && request.Cmp(*limit) != 0 {
				equal = false
			}
		}
	}

	switch {
	case !some:
		return v1.PodQOSBestEffort
	case equal:
		return v1.PodQOSGuaranteed
	}

	return v1.PodQOSBurstable
}

func positive(list v1.ResourceList, name v1.ResourceName) *resource.Quantity {
	if q, ok := list[name]; ok && q.Sign() > 0 {
		return &q
	}
	return nil
}
