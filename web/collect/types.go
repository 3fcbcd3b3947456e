package collect

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"porthole.dev/porthole/web/model"
)

// objects are those of the API, as last seen; internal/kube's Overview implements it.
type objects interface {
	Nodes() []*v1.Node
	Pods() []*v1.Pod
	Services() []*v1.Service
	Slices() []*discoveryv1.EndpointSlice
	Events() []*v1.Event
	// Synced reports whether the first lists are complete.
	Synced() bool
	// Ready asks the API server whether it is there.
	Ready(ctx context.Context) error
}

// Program is one of a node's programs that answer questions.
type Program string

// The programs that are asked.
const (
	Routes Program = "routes"
	Proxy  Program = "proxy"
)

// nodes asks programs of nodes; cli/web implements it, for local clusters by their network namespaces, for others by
// the kubelets.
type nodes interface {
	// Ask reads a path of a program of a node. ErrNone: the node has no such program.
	Ask(ctx context.Context, node model.NodeRef, p Program, path string) ([]byte, error)
}

// Options configure a Collector. Objects, Nodes and Name are required.
type Options struct {
	Objects objects
	Nodes   nodes
	// Name is how the cluster is called. Local: it is a local cluster. Expected are the nodes that it should have.
	Name     string
	Local    bool
	Expected []model.NodeRef
	// Wait is how long a program may keep a question until it has news, 0 for cheap questions that are asked again and
	// again.
	Wait time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// How often things are done. The issue wants a change on the page within a second.
const (
	// watched and unwatched are how often nodes are asked while a page is open, and while none is.
	watched, unwatched = 700 * time.Millisecond, 10 * time.Second
	// noProgram is how often a node is asked for a program that it does not have.
	noProgram = 10 * time.Second
	// settle gathers changes: 100 changes a second cost no more than four.
	settle = 150 * time.Millisecond
	// askLimit bounds one question. A program under Wine that is busy takes some tenths of a second.
	askLimit = 3 * time.Second
	// aging makes texts that depend on the time alone appear: a pod that starts for too long.
	aging = 5 * time.Second
	// idleTicks is how many times less often that is looked for without a page: to make the document of 2,000 pods
	// takes 50 ms.
	idleTicks = 4
)
