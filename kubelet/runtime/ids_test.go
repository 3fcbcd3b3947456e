package runtime

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/userns"
)

// TestIDs: the sandbox, the containers and the mounts of a pod get the same mapping of user ids. A pod without a user
// namespace asks for the node's, in the form of upstream's kubelet. On Windows nothing is asked for.
func TestIDs(t *testing.T) {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	for _, c := range []struct {
		windows bool
		ids     *userns.Range
		mode    cri.NamespaceMode
		first   uint32
	}{{false, &userns.Range{First: 131072, Length: 65536}, cri.NamespaceMode_POD, 131072}, {false, nil,
		cri.NamespaceMode_NODE, 0}, {true, nil, 0, 0}} {
		o := Options{Windows: c.windows}
		box := SandboxSpec{Pod: p, IDs: c.ids}
		sandbox, err := o.sandboxConfig(box)
		if err != nil {
			t.Fatal(err)
		}
		container, err := o.containerConfig(ContainerSpec{Sandbox: box, Container: &p.Spec.Containers[0],
			Mounts: []Mount{{HostPath: "/a", ContainerPath: "/b"}}})
		if err != nil {
			t.Fatal(err)
		}

		all := []*cri.UserNamespace{sandbox.Linux.SecurityContext.NamespaceOptions.UsernsOptions}
		if !c.windows {
			all = append(all, container.Linux.SecurityContext.NamespaceOptions.UsernsOptions)
		}
		for _, u := range all {
			if c.windows != (u == nil) || u.GetMode() != c.mode && !c.windows ||
				c.ids != nil && (u.Uids[0].HostId != c.first || u.Gids[0].Length != 65536 ||
					u.Uids[0].ContainerId != 0) {
				t.Errorf("%+v: %v", c, u)
			}
		}
		m := container.Mounts[0]
		if (len(m.UidMappings) == 1) != (c.ids != nil) || c.ids != nil && m.GidMappings[0].HostId != c.first {
			t.Errorf("%+v: mount %v", c, m)
		}
	}
}
