package origin

import (
	"context"
	"path/filepath"

	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// DefaultDir is the state folder of the local cluster.
const DefaultDir = cluster.DefaultDir

// ports of the nodes' programs on their loopback (ARCHITECTURE.md).
var ports = map[collect.Program]int{collect.Routes: 10261, collect.Proxy: 10249}

// choose returns the local cluster, or the one of the kubeconfig.
func (f Flags) choose() (*Origin, error) {
	if f.Kubeconfig != "" {
		return &Origin{Options: collect.Options{Name: filepath.Base(f.Kubeconfig)}, kubeconfig: f.Kubeconfig}, nil
	}
	layout, err := cluster.NewLayout(f.Dir)
	if err != nil {
		return nil, err
	}
	asker, err := cluster.NewAsker(layout)
	if err != nil {
		return nil, err
	}

	o := &Origin{Options: collect.Options{Name: "local cluster", Local: true}, kubeconfig: layout.Kubeconfig(), Hosts: hosts{host.Store{Dir: layout.Dir, Bin: layout.Bin}}}
	o.facts = func(ctx context.Context) (map[string][]byte, error) { return cluster.NodeFacts(ctx, layout) }
	nodes := localNodes{asker: asker, nodes: map[string]cluster.Node{}}
	for _, n := range asker.Nodes() {
		nodes.nodes[n.Name] = n
		o.Expected = append(o.Expected, model.NodeRef{Name: n.Name, OS: n.OS()})
	}
	o.Nodes = nodes
	return o, nil
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

// hosts are the emulated hosts in the folder of a local cluster.
type hosts struct{ store host.Store }

func (h hosts) Names() ([]string, error) {
	list, err := h.store.List()
	var names []string
	for _, one := range list {
		if one.OS != "windows" {
			continue
		}
		names = append(names, one.Name)
	}
	return names, err
}

func (h hosts) HNS(ctx context.Context, name, method, path string, body []byte) ([]byte, error) {
	one, err := h.store.Get(name)
	if err != nil {
		return nil, err
	}
	return one.HNS(ctx, method, path, body)
}
