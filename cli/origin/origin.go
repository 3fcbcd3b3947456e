// Package origin is where commands that show a cluster get what they show: from a local cluster and its nodes, or by a kubeconfig from an API server
// and, through it, from the kubelets.
package origin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/node/facts"
	"porthole.dev/porthole/path"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// Flags choose the cluster.
type Flags struct{ Kubeconfig, Dir string }

// AddTo adds the flags to a command.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to show; empty: the local cluster")
	fs.StringVar(&f.Dir, "dir", DefaultDir, "state folder of the local cluster")
}

// Origin is one cluster.
type Origin struct {
	// Options are those of a collector for this cluster.
	collect.Options
	kubeconfig string
	overview   *kube.Overview
	// facts asks machines for their facts of the network, by name; an error beside results names those that did not answer.
	facts func(ctx context.Context) (map[string][]byte, error)
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

// Open returns the cluster that the flags choose. changed is called after each change of the API's objects, once Run was called.
func (f Flags) Open(changed func()) (*Origin, error) {
	o, err := f.choose()
	if err != nil {
		return nil, err
	}
	if o.overview, err = kube.NewOverview(o.kubeconfig, changed); err != nil {
		return nil, err
	}
	o.Objects = o.overview
	if o.Nodes == nil {
		o.Nodes = kubelets{o.overview}
	}
	if o.facts == nil {
		o.facts = o.factsOfKubelets
	}
	return o, nil
}

// Run watches the API until ctx ends.
func (o *Origin) Run(ctx context.Context) { o.overview.Run(ctx) }

// Follow follows a packet: it asks the machines for their facts and computes the hops. unknown names machines that did not answer.
func (o *Origin) Follow(ctx context.Context, r path.Request) (result path.Result, unknown string, err error) {
	outputs, err := o.facts(ctx)
	if err != nil && len(outputs) == 0 {
		return path.Result{}, "", err
	}
	if err != nil {
		unknown = err.Error()
	}

	var all path.Facts
	for name, data := range outputs {
		var n path.Node
		if err := json.Unmarshal(data, &n); err != nil {
			return path.Result{}, "", fmt.Errorf("reading the facts of %s: %w", name, err)
		}
		all.Nodes = append(all.Nodes, n)
	}
	if all.Cluster, err = facts.ReadCluster(ctx, o.kubeconfig); err != nil {
		return path.Result{}, "", err
	}
	result, err = path.Follow(&all, r)
	return result, unknown, err
}

// asker reads a path of a node's kubelet; internal/kube's Overview implements it.
type asker interface {
	AskNode(ctx context.Context, node, path string) ([]byte, error)
}

// kubelets asks nodes through their kubelets, which pass on the questions to the node's other programs (kubelet/serve, programs.go).
type kubelets struct{ api asker }

// errNotOurs says what a 404 of a kubelet means: the path is one of Porthole's kubelets.
var errNotOurs = errors.New("its kubelet does not pass on questions to the node's programs, so it is none of Porthole, or of an older version")

func (k kubelets) Ask(ctx context.Context, n model.NodeRef, p collect.Program, path string) ([]byte, error) {
	data, err := k.api.AskNode(ctx, n.Name, "porthole/"+string(p)+path)
	switch {
	case err == nil:
		return data, nil
	case kube.IsNotFound(err) && p == collect.Proxy && n.OS != "windows":
		return nil, collect.ErrNone
	case kube.IsNotFound(err):
		return nil, errNotOurs
	}
	return nil, err
}

// factsOfKubelets asks every node for its facts, all at once.
func (o *Origin) factsOfKubelets(ctx context.Context) (map[string][]byte, error) {
	type answer struct {
		node string
		data []byte
		err  error
	}
	nodes := o.overview.Nodes()
	answers := make(chan answer, len(nodes))
	for _, n := range nodes {
		go func() {
			data, err := o.overview.AskNode(ctx, n.Name, "porthole/facts")
			if kube.IsNotFound(err) {
				err = errNotOurs
			}
			answers <- answer{n.Name, data, err}
		}()
	}

	out := map[string][]byte{}
	var silent []string
	for range nodes {
		a := <-answers
		if a.err != nil {
			silent = append(silent, fmt.Sprintf("asking %s for its facts: %v", a.node, a.err))
			continue
		}
		out[a.node] = a.data
	}
	if len(silent) > 0 {
		return out, errors.New(strings.Join(silent, "; "))
	}
	return out, nil
}
