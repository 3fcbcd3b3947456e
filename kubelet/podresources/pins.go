package podresources

import (
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/pin"
)

// ids lists processors as the API has them.
func ids(cpus []int) []int64 {
	var out []int64
	for _, c := range cpus {
		out = append(out, int64(c))
	}
	return out
}

// memory lists blocks with their NUMA nodes.
func memory(blocks []pin.Block) []*api.ContainerMemory {
	var out []*api.ContainerMemory
	for _, b := range blocks {
		one := &api.ContainerMemory{MemoryType: string(b.Kind), Size: b.Bytes, Topology: &api.TopologyInfo{}}
		for _, n := range b.Nodes {
			one.Topology.Nodes = append(one.Topology.Nodes, &api.NUMANode{ID: int64(n)})
		}
		out = append(out, one)
	}
	return out
}

// claims lists claims with the devices that drivers have given them.
func claims(held []dra.Held) []*api.DynamicResource {
	var out []*api.DynamicResource
	for _, h := range held {
		one := &api.DynamicResource{ClaimName: h.Name, ClaimNamespace: h.Namespace}
		for _, d := range h.Devices {
			r := &api.ClaimResource{DriverName: d.Driver, PoolName: d.Pool, DeviceName: d.Name,
				ShareId: (*string)(d.Share)}
			for _, name := range d.CDI {
				r.CdiDevices = append(r.CdiDevices, &api.CDIDevice{Name: name})
			}
			one.ClaimResources = append(one.ClaimResources, r)
		}
		out = append(out, one)
	}
	return out
}
