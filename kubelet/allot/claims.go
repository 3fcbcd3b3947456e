package allot

import (
	"context"
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/runtime"
)

// addClaims adds the devices that the container has because of the pod's claims.
func (m *Manager) addClaims(spec *runtime.ContainerSpec) error {
	names, err := m.claims.CDI(spec.Sandbox.Pod, spec.Container)
	for _, name := range names {
		if !slices.Contains(spec.CDI, name) {
			spec.CDI = append(spec.CDI, name)
		}
	}
	return err
}

// healthOf returns the health of the devices of a pod's containers, whoever gave them.
func (m *Manager) healthOf(p *v1.Pod) map[string][]v1.ResourceStatus {
	ofPlugins := m.devices.Health(p.UID)
	ofClaims := m.claims.Health(p)
	if len(ofClaims) == 0 {
		return ofPlugins
	}
	out := maps.Clone(ofClaims)
	for name, list := range ofPlugins {
		out[name] = append(slices.Clone(list), out[name]...)
	}
	return out
}

// noClaims is used by a node without an API server.
type noClaims struct{}

func (noClaims) Prepare(_ context.Context, p *v1.Pod) error {
	if len(p.Spec.ResourceClaims) > 0 {
		return errors.New("prepare dynamic resources: this node has no API server to read ResourceClaims from")
	}
	return nil
}
func (noClaims) Unprepare(context.Context, types.UID) error    { return nil }
func (noClaims) CDI(*v1.Pod, *v1.Container) ([]string, error)  { return nil, nil }
func (noClaims) Health(*v1.Pod) map[string][]v1.ResourceStatus { return nil }
func (noClaims) Held(*v1.Pod, *v1.Container) []dra.Held        { return nil }
