package web

import (
	"context"
	"path/filepath"

	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

const defaultDir = cluster.DefaultDir

// ports of the nodes' programs on their loopback (ARCHITECTURE.md).
var ports = map[collect.Program]int{collect.Routes: 10261, collect.Proxy: 10249}

// from returns where the data comes from: the local cluster, or the one of --kubeconfig.
func (o options) from() (f origin, err error) {
	if o.kubeconfig != "" {
		return origin{collect.Options{Name: filepath.Base(o.kubeconfig)}, o.kubeconfig}, nil
	}
	layout, err := cluster.NewLayout(o.dir)
	if err != nil {
		return f, err
	}
	asker, err := cluster.NewAsker(layout)
	if err != nil {
		return f, err
	}

	f = origin{collect.Options{Name: "local cluster", Local: true}, layout.Kubeconfig()}
	nodes := localNodes{asker: asker, nodes: map[string]cluster.Node{}}
	for _, n := range asker.Nodes() {
		nodes.nodes[n.Name] = n
		f.Expected = append(f.Expected, model.NodeRef{Name: n.Name, OS: n.OS()})
	}
	f.Nodes = nodes
	return f, nil
}

// localNodes asks the nodes of a local cluster in their network namespaces.
type localNodes struct {
	asker *cluster.Asker
	nodes map[string]cluster.Node
}

func (l localNodes) Ask(ctx context.Context, n model.NodeRef, p collect.Program, path string) ([]byte, error) {
	node, ours := l.nodes[n.Name]
	if !ours || p == collect.Proxy && !l.asker.HasProxy(node) || p == collect.Routes && !l.asker.HasRoutes(node) {
		return nil, collect.ErrNone
	}
	return l.asker.Ask(ctx, n.Name, ports[p], path)
}
