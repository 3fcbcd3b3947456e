// Package podresources tells programs of the node what its pods have of it: the pod-resources API v1, at a socket. Programs that read
// figures of devices ask it which container has which device.
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

	"porthole.dev/porthole/kubelet/device"
)

// source is what is asked; the kubelet implements it.
type source interface {
	// ActivePods are the pods that have not ended.
	ActivePods() []*v1.Pod
	// PodDevices are the devices of a pod, by container.
	PodDevices(uid types.UID) map[string][]device.Held
	// HealthyDevices are those that the node has for pods.
	HealthyDevices() []device.Held
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
			return &api.GetPodResourcesResponse{PodResources: s.of(p)}, nil
		}
	}
	return nil, fmt.Errorf("pod %s in namespace %s not found", q.PodName, q.PodNamespace)
}

// GetAllocatableResources returns what the node has for pods. There are no processors and no memory that belong to one container alone.
func (s *server) GetAllocatableResources(context.Context, *api.AllocatableResourcesRequest) (*api.AllocatableResourcesResponse, error) {
	return &api.AllocatableResourcesResponse{Devices: devices(s.from.HealthyDevices())}, nil
}

// of returns what a pod has. Init containers that end are left out, as upstream does.
func (s *server) of(p *v1.Pod) *api.PodResources {
	held := s.from.PodDevices(p.UID)
	out := &api.PodResources{Name: p.Name, Namespace: p.Namespace}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			out.Containers = append(out.Containers, &api.ContainerResources{Name: c.Name, Devices: devices(held[c.Name])})
		}
	}
	for _, c := range p.Spec.Containers {
		out.Containers = append(out.Containers, &api.ContainerResources{Name: c.Name, Devices: devices(held[c.Name])})
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
