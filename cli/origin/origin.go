// Package origin is where commands that show a cluster get what they show: from a local cluster and its nodes, or by a
// kubeconfig from an API server and, through it, from the kubelets.
package origin

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// Flags choose the cluster.
type Flags struct{ Kubeconfig, Dir string }

// AddTo adds the flags to a command.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to show; empty: the local cluster")
	program.StateDir(fs, &f.Dir, DefaultDir, "state folder of the local cluster")
}

// Origin is one cluster.
type Origin struct {
	// Options are those of a collector for this cluster.
	collect.Options
	kubeconfig string
	overview   *networkapi.Overview
	// Hosts are the emulated hosts; nil if there are none.
	Hosts Hosts
}

// Hosts are emulated Windows hosts.
type Hosts interface {
	// Names lists the hosts.
	Names() ([]string, error)
	// HNS asks, or changes, the Host Networking Service of a host.
	HNS(ctx context.Context, host, method, path string, body []byte) ([]byte, error)
}

// Open returns the cluster that the flags choose. changed is called after each change of the API's objects, once Run
// was called.
func (f Flags) Open(changed func()) (*Origin, error) {
	o, err := f.choose()
	if err != nil {
		return nil, err
	}
	if o.overview, err = networkapi.NewOverview(o.kubeconfig, changed); err != nil {
		return nil, err
	}
	o.Objects = o.overview
	if o.Nodes == nil {
		o.Nodes, o.Wait = kubelets{o.overview}, kubeletWait
	}
	return o, nil
}

// Run watches the API until ctx ends.
func (o *Origin) Run(ctx context.Context) { o.overview.Run(ctx) }

// asker reads a path of a node's kubelet; internal/networkapi's Overview implements it.
type asker interface {
	AskNode(ctx context.Context, node, path string) ([]byte, error)
}

// kubeletWait is how long a program of a node keeps a question that comes by the API server, until it has news. A node
// that is cut off is noticed that much later.
const kubeletWait = 10 * time.Second

// kubelets asks nodes through their kubelets, which pass on the questions to the node's other programs (kubelet/serve,
// programs.go).
type kubelets struct{ api asker }

// ErrNotOurs says what a 404 of a kubelet means: the path is one of Porthole's kubelets.
var ErrNotOurs = errors.New(
	"its kubelet does not pass on questions to the node's programs, so it is none of Porthole, or of an older version")

func (k kubelets) Ask(ctx context.Context, n model.NodeRef, p collect.Program, path string) ([]byte, error) {
	if p == collect.Proxy && n.OS != "windows" {
		return nil, collect.ErrNone // upstream's kube-proxy, which has no list of what it has programmed
	}
	data, err := k.api.AskNode(ctx, n.Name, "porthole/"+string(p)+path)
	switch {
	case err == nil:
		return data, nil
	case networkapi.IsNotFound(err):
		return nil, ErrNotOurs
	}
	return nil, err
}
