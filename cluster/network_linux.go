package cluster

import (
	"context"

	"porthole.dev/porthole/internal/kube"
)

// network is what a local cluster needs for one mode of --network, in addition to what all modes need. A field that is
// nil adds nothing. The zero value is for modes in which `porthole routes` on each node does everything.
type network struct {
	// preflight returns an error for each thing that the machine lacks for this mode, with what to do about it.
	preflight func(Layout, Config) []error
	// prepare makes files, kernel settings and addresses. It runs when the namespaces of router and nodes exist and
	// before any process starts. It runs at each start of the cluster, also after one that was interrupted, so it must
	// be idempotent.
	prepare func(Layout, Config) error
	// router adds processes of the router, which run in the namespace lab.RouterNetns. node adds processes of one node.
	router func(*planner)
	node   func(*planner, Node)
	// routes returns additional flags of `porthole routes` on a node. dir is the path of the node's Kubernetes files
	// on that node: a path of Windows on Windows nodes.
	routes func(l Layout, c Config, n Node, dir string) []string
	// files returns the contents of additional files in that folder, by file name.
	files func(Config, Node) map[string][]byte
	// proxy changes the KubeProxyConfiguration of a node in place.
	proxy func(Node, map[string]any)
	// services is set if this mode implements Services itself; then no node runs kube-proxy. It returns how many are
	// programmed.
	services func(context.Context, Config) Counts
	// plugins are the CNI plugins that Windows nodes need in addition to win-bridge: names of programs in bin/windows,
	// without ".exe".
	plugins []string
	// drivers are names of Windows services, for kernel drivers that are to be registered on Windows nodes.
	drivers []string
	// secondCard: prepare gives the nodes a second network card.
	secondCard bool
	// facts returns additional flags of `porthole facts` on a node.
	facts func(Layout, Node) []string
	// firewall are additional flags of `porthole.exe firewall add`, for nodes with --windows-firewall.
	firewall []string
	// settle completes the network when all nodes are Ready, before connections between pods are tested. It is called
	// again until it returns nil or addonsWait is over, and also by each `porthole up` on a cluster that runs already.
	settle func(context.Context, UpOptions, *kube.Cluster) error
	// remove deletes the files of this mode that are outside the state folder. It succeeds if there are none.
	remove func(Config) error
}

// networks has an entry for each mode that needs something in addition.
var networks = map[string]network{
	"tor":   torNetwork,
	"bgp":   bgpNetwork,
	"vxlan": {plugins: []string{"win-overlay"}, firewall: []string{"--vxlan"}},
	"ovn":   ovnNetwork,
}

// network returns what the mode of this cluster needs.
func (c Config) network() network { return networks[c.Network] }
