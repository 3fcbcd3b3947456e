package origin

import (
	"context"
	"path/filepath"

	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// DefaultDir is the state folder of the local cluster.
const DefaultDir = inspect.DefaultDir

// ports of the nodes' programs on their loopback (ARCHITECTURE.md).
var ports = map[collect.Program]int{collect.Routes: 10261, collect.Proxy: 10249}

// choose returns the local cluster, or the one of the kubeconfig.
func (f Flags) choose() (*Origin, error) {
	if f.Kubeconfig != "" {
		return &Origin{Options: collect.Options{Name: filepath.Base(f.Kubeconfig)}, kubeconfig: f.Kubeconfig}, nil
	}
	local, err := inspect.Open(f.Dir)
	if err != nil {
		return nil, err
	}

	o := &Origin{Options: collect.Options{Name: "local cluster", Local: true}, kubeconfig: local.Kubeconfig(),
		Hosts: local}
	nodes := localNodes{cluster: local, nodes: map[string]inspect.Node{}}
	for _, n := range local.Nodes() {
		nodes.nodes[n.Name] = n
		o.Expected = append(o.Expected, model.NodeRef{Name: n.Name, OS: n.OS})
	}
	o.Nodes = nodes
	return o, nil
}

// localNodes asks the nodes of a local cluster in their network namespaces.
type localNodes struct {
	cluster *inspect.Cluster
	nodes   map[string]inspect.Node
}

func (l localNodes) Ask(ctx context.Context, n model.NodeRef, p collect.Program, path string) ([]byte, error) {
	node, ours := l.nodes[n.Name]
	if !ours || p == collect.Proxy && !node.Proxy || p == collect.Routes && !node.Routes {
		return nil, collect.ErrNone
	}
	return l.cluster.Ask(ctx, n.Name, ports[p], path)
}
