// Package process describes programs of a local cluster to its supervisor: in which network namespace they run, where
// their logs are, and what they wait for.
package process

import (
	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/supervise"
)

// OnNode is a program of a node: it runs in the node's network namespace, and its log is in the node's folder. What
// it runs is left to the caller.
func OnNode(l layout.Layout, c config.Cluster, node, name string) supervise.Process {
	return supervise.Process{Name: node + "/" + name, Node: node, Netns: c.Netns(node), Log: l.NodeLog(node, name)}
}

// APIReady holds once the API server takes connections.
func APIReady(c config.Cluster) supervise.Condition {
	return supervise.Condition{TCP: config.APIServer(), Netns: c.Netns("lin01")}
}

// Supervisor returns the options of the supervisor of the cluster's processes.
func Supervisor(l layout.Layout) supervise.Options {
	return supervise.Options{RunDir: l.RunDir(), Self: []string{l.Porthole(), "supervise", "--dir", l.Dir},
		Log: l.Log("supervisor")}
}
