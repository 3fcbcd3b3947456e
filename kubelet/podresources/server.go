// Package podresources tells programs of the node what its pods have of it: the pod-resources API v1, at a socket.
// Programs that read figures of devices ask it which container has which device. Older ones ask v1alpha1, which
// upstream answers too.
package podresources

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/pin"
)

// source is what is asked; the kubelet implements it.
type source interface {
	// ActivePods are the pods that have not ended.
	ActivePods() []*v1.Pod
	// PodDevices are the devices of a pod, by container.
	PodDevices(uid types.UID) map[string][]device.Held
	// HealthyDevices are those that the node has for pods.
	HealthyDevices() []device.Held
	// Claims are the claims of a container, with their devices.
	Claims(p *v1.Pod, c *v1.Container) []dra.Held
	// Alone are the processors and the memory that a container has alone, ForPods those that containers can get.
	Alone(uid types.UID, container string) (cpus []int, memory []pin.Block)
	ForPods() (cpus []int, memory []pin.Block)
	// Asked counts a question: list, get or get_allocatable, or v1alpha1 for one in that version.
	Asked(call string, failed bool)
}

// Serve answers at the node's socket in dir, on Windows at the named pipe of upstream's, until ctx ends.
func Serve(ctx context.Context, dir string, from source) error {
	listener, err := listen(dir)
	if err != nil {
		return fmt.Errorf("listening for questions about pods' resources: %w", err)
	}
	return serve(ctx, listener, from)
}

func serve(ctx context.Context, listener net.Listener, from source) error {
	s := grpc.NewServer()
	api.RegisterPodResourcesListerServer(s, &server{from: from})
	alpha.RegisterPodResourcesListerServer(s, &alphaServer{from: from})
	defer context.AfterFunc(ctx, s.Stop)()
	if err := s.Serve(listener); ctx.Err() == nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving questions about pods' resources: %w", err)
	}
	return nil
}

// server answers the API.
type server struct {
	api.UnimplementedPodResourcesListerServer
	from source
}

// List returns what each pod has.
func (s *server) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	s.from.Asked("list", false)
	answer := &api.ListPodResourcesResponse{}
	for _, p := range s.from.ActivePods() {
		answer.PodResources = append(answer.PodResources, s.of(p))
	}
	return answer, nil
}

// Get returns what one pod has.
func (s *server) Get(_ context.Context, q *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	for _, p := range s.from.ActivePods() {
		if p.Name == q.PodName && p.Namespace == q.PodNamespace {
			s.from.Asked("get", false)
			return &api.GetPodResourcesResponse{PodResources: s.of(p)}, nil
		}
	}
	s.from.Asked("get", true)
	return nil, fmt.Errorf("pod %s in namespace %s not found", q.PodName, q.PodNamespace)
}

// GetAllocatableResources returns what the node has for pods.
func (s *server) GetAllocatableResources(context.Context,
	*api.AllocatableResourcesRequest) (*api.AllocatableResourcesResponse, error) {
	s.from.Asked("get_allocatable", false)
	cpus, blocks := s.from.ForPods()
	return &api.AllocatableResourcesResponse{Devices: devices(s.from.HealthyDevices()), CpuIds: ids(cpus),
		Memory: memory(blocks)}, nil
}

// of returns what a pod has. Init containers that end are left out, as upstream does.
func (s *server) of(p *v1.Pod) *api.PodResources {
	held := s.from.PodDevices(p.UID)
	one := func(c *v1.Container) *api.ContainerResources {
		cpus, blocks := s.from.Alone(p.UID, c.Name)
		return &api.ContainerResources{Name: c.Name, Devices: devices(held[c.Name]), CpuIds: ids(cpus),
			Memory: memory(blocks), DynamicResources: claims(s.from.Claims(p, c))}
	}
	out := &api.PodResources{Name: p.Name, Namespace: p.Namespace}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			out.Containers = append(out.Containers, one(c))
		}
	}
	for i := range p.Spec.Containers {
		out.Containers = append(out.Containers, one(&p.Spec.Containers[i]))
	}
	return out
}

// devices lists each device with its NUMA nodes.
func devices(list []device.Held) []*api.ContainerDevices {
	var out []*api.ContainerDevices
	for _, h := range list {
		one := &api.ContainerDevices{ResourceName: h.Resource, DeviceIds: []string{h.ID}}
		for _, n := range h.Nodes {
			if one.Topology == nil {
				one.Topology = &api.TopologyInfo{}
			}
			one.Topology.Nodes = append(one.Topology.Nodes, &api.NUMANode{ID: n})
		}
		out = append(out, one)
	}
	return out
}

// alphaServer answers the API v1alpha1, which knows the devices of containers and no more.
type alphaServer struct {
	alpha.UnimplementedPodResourcesListerServer
	from source
}

// List returns which devices each pod has. Init containers are left out, as upstream does.
func (s *alphaServer) List(context.Context, *alpha.ListPodResourcesRequest) (*alpha.ListPodResourcesResponse, error) {
	s.from.Asked("v1alpha1", false)
	answer := &alpha.ListPodResourcesResponse{}
	for _, p := range s.from.ActivePods() {
		held := s.from.PodDevices(p.UID)
		one := &alpha.PodResources{Name: p.Name, Namespace: p.Namespace}
		for i := range p.Spec.Containers {
			c := &alpha.ContainerResources{Name: p.Spec.Containers[i].Name}
			for _, h := range held[c.Name] {
				c.Devices = append(c.Devices,
					&alpha.ContainerDevices{ResourceName: h.Resource, DeviceIds: []string{h.ID}})
			}
			one.Containers = append(one.Containers, c)
		}
		answer.PodResources = append(answer.PodResources, one)
	}
	return answer, nil
}
