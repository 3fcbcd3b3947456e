package desired

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestHostProcess: a container's own setting counts before the pod's.
func TestHostProcess(t *testing.T) {
	yes, no := true, false
	windows := func(on *bool) *v1.WindowsSecurityContextOptions {
		return &v1.WindowsSecurityContextOptions{HostProcess: on}
	}
	for _, c := range []struct {
		name      string
		pod       *v1.PodSecurityContext
		container *v1.SecurityContext
		want      bool
	}{
		{"nothing", nil, nil, false},
		{"pod", &v1.PodSecurityContext{WindowsOptions: windows(&yes)}, nil, true},
		{"pod, and a container that says nothing", &v1.PodSecurityContext{WindowsOptions: windows(&yes)},
			&v1.SecurityContext{WindowsOptions: windows(nil)}, true},
		{"container", nil, &v1.SecurityContext{WindowsOptions: windows(&yes)}, true},
		{"container against the pod", &v1.PodSecurityContext{WindowsOptions: windows(&yes)},
			&v1.SecurityContext{WindowsOptions: windows(&no)}, false},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: c.pod}}
		if got := HostProcess(pod, &v1.Container{SecurityContext: c.container}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
