package web

import (
	"context"
	"errors"

	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// origin is where the data comes from.
type origin struct {
	collect.Options
	kubeconfig string
}

// asker reads a path of a node's kubelet; internal/kube's Overview implements it.
type asker interface {
	AskNode(ctx context.Context, node, path string) ([]byte, error)
}

// kubelets asks nodes through their kubelets, which pass on the questions to the node's other programs.
type kubelets struct{ api asker }

var errNoKubelet = errors.New("its kubelet does not answer for the node's programs: it is not one of Porthole")

func (k kubelets) Ask(ctx context.Context, n model.NodeRef, p collect.Program, path string) ([]byte, error) {
	return k.api.AskNode(ctx, n.Name, "porthole/"+string(p)+path)
}
