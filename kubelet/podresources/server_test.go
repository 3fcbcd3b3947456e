package podresources

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/pin"
)

type node struct {
	pods  []*v1.Pod
	asked *[]string
}

func (n node) ActivePods() []*v1.Pod { return n.pods }

func (n node) PodDevices(uid types.UID) map[string][]device.Held {
	return map[string][]device.Held{
		"app": {{Resource: "example.com/gpu", Device: device.Device{ID: string(uid) + "-0", Nodes: []int64{1}}},
			{Resource: "example.com/nic", Device: device.Device{ID: "eth9"}}}}
}

func (n node) Claims(p *v1.Pod, c *v1.Container) []dra.Held {
	if c.Name != "side" {
		return nil
	}
	return []dra.Held{{Name: "x", Namespace: p.Namespace,
		Devices: []dra.Device{{Driver: "d", Pool: "p", Name: "0", CDI: []string{"d/dev=0"}}}}}
}

func (n node) HealthyDevices() []device.Held {
	return []device.Held{{Resource: "example.com/gpu", Device: device.Device{ID: "free"}}}
}

func (n node) Alone(_ types.UID, container string) ([]int, []pin.Block) {
	if container != "app" {
		return nil, nil
	}
	return []int{1, 9}, []pin.Block{{Kind: v1.ResourceMemory, Nodes: []int{0, 1}, Bytes: 5}}
}

func (n node) ForPods() ([]int, []pin.Block) {
	return []int{1, 2}, []pin.Block{{Kind: v1.ResourceMemory, Nodes: []int{0}, Bytes: 7}}
}

func (n node) Asked(call string, failed bool) { *n.asked = append(*n.asked, fmt.Sprint(call, failed)) }

// TestServer asks over a socket.
func TestServer(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	always := v1.ContainerRestartPolicyAlways
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)},
			Spec: v1.PodSpec{
				InitContainers: []v1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}},
				Containers:     []v1.Container{{Name: "app"}}}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	done, asked := make(chan error, 1), []string{}
	go func() { done <- serve(ctx, listener, node{[]*v1.Pod{pod("a"), pod("b")}, &asked}) }()
	conn, err := grpc.NewClient("unix:"+listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := api.NewPodResourcesListerClient(conn)

	list, err := c.List(ctx, &api.ListPodResourcesRequest{})
	if err != nil || len(list.PodResources) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	one, err := c.Get(ctx, &api.GetPodResourcesRequest{PodName: "b", PodNamespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range one.PodResources.Containers {
		for _, d := range c.Devices {
			got = append(got, fmt.Sprint(d.ResourceName, d.DeviceIds, len(d.GetTopology().GetNodes())))
		}
		got = append(got, c.Name)
	}
	app := one.PodResources.Containers[1]
	if fmt.Sprint(app.CpuIds) != "[1 9]" || len(app.Memory) != 1 || app.Memory[0].Size != 5 ||
		app.Memory[0].MemoryType != "memory" || len(app.Memory[0].Topology.Nodes) != 2 ||
		one.PodResources.Containers[0].CpuIds != nil {
		t.Errorf("alone it has %v, %v", app.CpuIds, app.Memory)
	}
	if side := fmt.Sprint(one.PodResources.Containers[0].DynamicResources); !strings.Contains(strings.ReplaceAll(side,
		"  ", " "),
		`claim_name:"x" claim_namespace:"ns" claim_resources:{cdi_devices:{name:"d/dev=0"} driver_name:"d" pool_name:"p" device_name:"0"}`) || app.DynamicResources != nil {
		t.Errorf("its sidecar has the claims %s", side)
	}
	if text := strings.Join(got, " "); text != "side example.com/gpu[b-0] 1 example.com/nic[eth9] 0 app" {
		t.Errorf("the pod has %s", text)
	}
	if _, err := c.Get(ctx, &api.GetPodResourcesRequest{PodName: "b", PodNamespace: "other"}); err == nil ||
		!strings.Contains(err.Error(), "pod b in namespace other not found") {
		t.Errorf("a pod that is not there: %v", err)
	}
	all, err := c.GetAllocatableResources(ctx, &api.AllocatableResourcesRequest{})
	if err != nil || len(all.Devices) != 1 || all.Devices[0].DeviceIds[0] != "free" ||
		fmt.Sprint(all.CpuIds) != "[1 2]" || all.Memory[0].Size != 7 {
		t.Errorf("the node has %v, %v", all, err)
	}
	old, err := alpha.NewPodResourcesListerClient(conn).List(ctx, &alpha.ListPodResourcesRequest{})
	if err != nil || len(old.PodResources) != 2 || len(old.PodResources[1].Containers) != 1 ||
		fmt.Sprint(old.PodResources[1].Containers[0].Devices[0].DeviceIds) != "[b-0]" {
		t.Errorf("in v1alpha1 the pods have %v, %v", old, err)
	}
	if text := strings.Join(asked, " "); text != "listfalse getfalse gettrue get_allocatablefalse v1alpha1false" {
		t.Errorf("counted: %s", text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
