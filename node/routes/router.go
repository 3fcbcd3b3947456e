package routes

import (
	"context"
	"fmt"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/tor"
)

// RouterRoutes reads the nodes once and returns the routes that their router needs in the mode tor.
func RouterRoutes(ctx context.Context, kubeconfig string) ([]table.Wanted, error) {
	cluster, err := kube.NewCluster(kubeconfig)
	if err != nil {
		return nil, err
	}
	list, err := cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := make([]table.Node, len(list))
	for i := range list {
		nodes[i] = toTable(&list[i])
	}
	return tor.Wanted(nodes), nil
}
