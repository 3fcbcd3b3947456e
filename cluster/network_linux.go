package cluster

import (
	"context"

	"porthole.dev/porthole/internal/kube"
)

// network is what one mode of --network needs of the local cluster beside what every mode has. Fields that are nil add nothing, so
// that the zero network is one of nodes whose `porthole routes` does everything.
type network struct {
	// preflight returns what the machine lacks for this mode, each with what to do about it.
	preflight func(Layout, Config) []error
	// prepare runs once the namespaces of router and nodes are there, before any process starts: files, kernel settings, addresses.
	// It can be repeated.
	prepare func(Layout, Config) error
	// router adds the processes of the router, which run in the namespace lab.RouterNetns. node adds those of one node.
	router func(*planner)
	node   func(*planner, Node)
	// routes returns further flags of `porthole routes` on a node. dir is the folder of the node's Kubernetes files, as the node
	// sees it.
	routes func(l Layout, c Config, n Node, dir string) []string
	// files returns further files in that folder, by name.
	files func(Config, Node) map[string][]byte
	// proxy changes the KubeProxyConfiguration of a node.
	proxy func(Node, map[string]any)
	// services is set if this mode programs the services itself, so that no node runs kube-proxy. It asks what is programmed.
	services func(context.Context) Counts
	// plugins are the CNI plugins of Windows nodes beside win-bridge, by the names of their programs in bin/windows without ".exe".
	plugins []string
	// drivers are the services of kernel drivers that are installed on Windows nodes.
	drivers []string
	// firewall are further flags of `porthole.exe firewall add`, on nodes with a firewall.
	firewall []string
	// settle runs when all nodes are Ready, before packets are tested. It is called again until it returns nil or the time is over,
	// and after each `porthole up` on a cluster that runs already.
	settle func(context.Context, UpOptions, *kube.Cluster) error
}

// networks has what is special of each mode. One that needs nothing special has no entry.
var networks = map[string]network{
	"tor":   torNetwork,
	"bgp":   bgpNetwork,
	"vxlan": {plugins: []string{"win-overlay"}, firewall: []string{"--vxlan"}},
	"ovn":   ovnNetwork,
}

// network returns what the mode of this cluster needs.
func (c Config) network() network { return networks[c.Network] }
