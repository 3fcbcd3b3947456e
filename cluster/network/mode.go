// Package network has what a local cluster needs for each mode of --network besides what all modes need: a file for
// each mode that needs something, behind the type Mode.
package network

import (
	"context"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/status"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/kube"
)

// Mode is what a local cluster needs for one mode of --network, in addition to what all modes need. A field that is
// nil adds nothing. The zero value is for modes in which `porthole routes` on each node does everything.
type Mode struct {
	// Preflight returns an error for each thing that the machine lacks for this mode, with what to do about it.
	Preflight func(layout.Layout, config.Cluster) []error
	// Prepare makes files, kernel settings and addresses. It runs when the namespaces of router and nodes exist and
	// before any process starts. It runs at each start of the cluster, also after one that was interrupted, so it must
	// be idempotent.
	Prepare func(layout.Layout, config.Cluster) error
	// Router returns additional processes of the router, which run in its namespace. Node returns those of a node.
	Router func(layout.Layout, config.Cluster) []supervise.Process
	Node   func(layout.Layout, config.Cluster, config.Node) ([]supervise.Process, error)
	// Routes returns additional flags of `porthole routes` on a node. dir is the path of the node's Kubernetes files
	// on that node: a path of Windows on Windows nodes.
	Routes func(l layout.Layout, c config.Cluster, n config.Node, dir string) []string
	// Files returns the contents of additional files in that folder, by file name.
	Files func(config.Cluster, config.Node) map[string][]byte
	// Services is set if this mode implements Services itself; then no node runs kube-proxy. It returns how many are
	// programmed.
	Services func(context.Context, config.Cluster) status.Counts
	// Plugins are the CNI plugins that Windows nodes need in addition to win-bridge: names of programs in bin/windows,
	// without ".exe".
	Plugins []string
	// Drivers are names of Windows services, for kernel drivers that are to be registered on Windows nodes.
	Drivers []string
	// Facts returns additional flags of `porthole facts` on a node.
	Facts func(layout.Layout, config.Node) []string
	// Firewall are additional flags of `porthole.exe firewall add`, for nodes with --windows-firewall.
	Firewall []string
	// Settle completes the network when all nodes are Ready, before connections between pods are tested. It is called
	// again until it returns nil or the time for it is over, and also by each `porthole up` on a cluster that runs
	// already.
	Settle func(context.Context, layout.Layout, config.Cluster, *kube.Cluster) error
	// Remove deletes the files of this mode that are outside the state folder. It succeeds if there are none.
	Remove func(config.Cluster) error
}

// OwnServices reports whether the mode implements Services itself.
func (m Mode) OwnServices() bool { return m.Services != nil }
