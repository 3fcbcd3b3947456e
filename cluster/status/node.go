package status

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/internal/winbuild"
)

// OfNode returns the status of a node as far as the API knows it.
func OfNode(n config.Node, netns string, object *v1.Node) NodeStatus {
	s := NodeStatus{Name: n.Name, OS: n.OS(), Netns: netns, Addresses: []string{n.Address.String()}}
	if object == nil {
		s.Reason = "has not registered"
		return s
	}

	s.Build = object.Labels["node.kubernetes.io/windows-build"]
	s.OSImage, s.Runtime, s.PodCIDR = object.Status.NodeInfo.OSImage, object.Status.NodeInfo.ContainerRuntimeVersion,
		object.Spec.PodCIDR
	for _, h := range object.Status.RuntimeHandlers {
		if n.OS() == "windows" && winbuild.IsolationOf(h.Name) == winbuild.HyperV {
			s.NotIsolated = append(s.NotIsolated, h.Name)
		}
	}
	s.Addresses = nil
	for _, a := range object.Status.Addresses {
		if _, err := netip.ParseAddr(a.Address); err == nil {
			s.Addresses = append(s.Addresses, a.Address)
		}
	}

	s.Reason = "no Ready condition yet"
	for _, c := range object.Status.Conditions {
		if c.Type == v1.NodeReady {
			s.Ready = c.Status == v1.ConditionTrue
			s.Reason = c.Reason + ": " + c.Message
		}
	}

	if s.Ready {
		s.Reason = ""
	}
	return s
}
