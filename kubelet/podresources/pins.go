package podresources

import (
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

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
