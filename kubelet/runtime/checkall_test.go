package runtime

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// countingRuntime has one pod with a sandbox and a container. It records whose status was read.
type countingRuntime struct {
	cri.RuntimeServiceClient
	container cri.ContainerState

	mu    sync.Mutex
	asked []string
}

func (c *countingRuntime) note(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, id)
}

var podLabels = map[string]string{labelPodUID: "u", labelPodName: "p", labelPodNamespace: "n",
	labelContainerName: "app"}

func (c *countingRuntime) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest,
	...grpc.CallOption) (*cri.ListPodSandboxResponse, error) {
	return &cri.ListPodSandboxResponse{
		Items: []*cri.PodSandbox{{Id: "box", Labels: podLabels, State: cri.PodSandboxState_SANDBOX_READY}}}, nil
}

func (c *countingRuntime) ListContainers(context.Context, *cri.ListContainersRequest,
	...grpc.CallOption) (*cri.ListContainersResponse, error) {
	return &cri.ListContainersResponse{
		Containers: []*cri.Container{{Id: "app", PodSandboxId: "box", Labels: podLabels, State: c.container}}}, nil
}

func (c *countingRuntime) PodSandboxStatus(_ context.Context, r *cri.PodSandboxStatusRequest,
	_ ...grpc.CallOption) (*cri.PodSandboxStatusResponse, error) {
	c.note(r.PodSandboxId)
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{Id: r.PodSandboxId, Labels: podLabels,
		State:   cri.PodSandboxState_SANDBOX_READY,
		Network: &cri.PodSandboxNetworkStatus{Ip: "10.0.0.1"}}}, nil
}

func (c *countingRuntime) ContainerStatus(_ context.Context, r *cri.ContainerStatusRequest,
	_ ...grpc.CallOption) (*cri.ContainerStatusResponse, error) {
	c.note(r.ContainerId)
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{Id: r.ContainerId, Labels: podLabels,
		State: c.container, ImageRef: "sha256:1", ExitCode: 3}}, nil
}

// TestFullCheckAsksOnlyAboutWhatDiffers: a full check of pods that are in the known state costs two lists, regardless
// of their number.
func TestFullCheckAsksOnlyAboutWhatDiffers(t *testing.T) {
	client := &countingRuntime{container: cri.ContainerState_CONTAINER_RUNNING}
	r := &Runtime{client: client, o: Options{RequestTimeout: time.Minute}}
	check := func(known *observed.Runtime) (*observed.Runtime, []string) {
		client.asked = nil
		found := make(chan *observed.Runtime, 1)
		_, err := r.CheckAll(t.Context(), func(string) *observed.Runtime { return known },
			func(_ string, p *observed.Runtime, err error) {
				if err != nil {
					t.Error(err)
				}
				found <- p
			})
		if err != nil {
			t.Fatal(err)
		}
		return <-found, client.asked
	}

	first, asked := check(nil)
	if want := []string{"box", "app"}; !slices.Equal(asked, want) {
		t.Fatalf("with nothing known it asked about %v, want %v", asked, want)
	}
	second, asked := check(first)
	if len(asked) > 0 || len(second.Sandboxes) != 1 || len(second.Containers) != 1 ||
		second.Sandboxes[0].IPs[0] != "10.0.0.1" {
		t.Errorf("with all known it asked about %v and found %+v", asked, second)
	}

	client.container = cri.ContainerState_CONTAINER_EXITED // and no event said so
	third, asked := check(first)
	if want := []string{"app"}; !slices.Equal(asked, want) || third.Containers[0].ExitCode != 3 ||
		third.Containers[0].State != observed.Exited {
		t.Errorf("after an end it asked about %v and found %+v", asked, third.Containers)
	}
	vague := &observed.Runtime{Sandboxes: []observed.Sandbox{{ID: "box", Ready: true}},
		Containers: []observed.Container{{ID: "app", State: observed.Exited}}}
	if _, asked := check(vague); len(asked) != 2 {
		t.Errorf("with addresses and image unknown it asked about %v", asked)
	}
}
