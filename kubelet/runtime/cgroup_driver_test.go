package runtime_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// TestCgroupDriver: what the runtime says, nothing if it says nothing, and an error if it cannot be asked.
func TestCgroupDriver(t *testing.T) {
	driver := func(d cri.CgroupDriver) *cri.RuntimeConfigResponse {
		return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: d}}
	}
	for name, c := range map[string]struct {
		config *cri.RuntimeConfigResponse
		want   string
		code   codes.Code
	}{
		"systemd":          {driver(cri.CgroupDriver_SYSTEMD), "systemd", codes.OK},
		"cgroupfs":         {driver(cri.CgroupDriver_CGROUPFS), "cgroupfs", codes.OK},
		"unknown":          {driver(7), "", codes.Unknown},
		"no Linux":         {&cri.RuntimeConfigResponse{}, "", codes.OK},
		"does not know it": {nil, "", codes.OK},
	} {
		f := runtimetest.New()
		f.Config = c.config
		got, err := runtime.New(f.Dial(), runtime.Options{}).CgroupDriver(t.Context())
		if got != c.want || status.Code(err) != c.code {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}

	f := runtimetest.New()
	f.Config = driver(cri.CgroupDriver_CGROUPFS)
	f.Fault = func(runtimetest.Call) runtimetest.Outcome { return runtimetest.Hang }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := runtime.New(f.Dial(), runtime.Options{}).CgroupDriver(ctx); err == nil || got != "" {
		t.Errorf("a runtime that does not answer: %q, %v", got, err)
	}
}
