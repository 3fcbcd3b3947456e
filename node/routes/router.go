package routes

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/apiconn"
	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/tor"
)

// RouterRoutes reads the nodes once and returns the routes that their router needs in the mode tor. Nodes are held
// against cluster.
func RouterRoutes(ctx context.Context, kubeconfig string, cluster table.Cluster) ([]table.Wanted, error) {
	client, err := routerClient(kubeconfig)
	if err != nil {
		return nil, err
	}
	list, err := client.Nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := make([]table.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = toTable(&list.Items[i])
	}
	return tor.Wanted(nodes, cluster), nil
}

func routerClient(kubeconfig string) (*networkapi.Client, error) {
	client, _, err := networkapi.New(apiconn.Options{Kubeconfig: kubeconfig, UserAgent: "porthole-router", QPS: 20,
		Burst: 40})
	return client, err
}

// RouterOptions of KeepRouter.
type RouterOptions struct {
	Kubeconfig string        // required
	Format     string        // one of tor.Drivers, required
	Command    string        // the router's own command; empty: vtysh or ip
	Cluster    table.Cluster // with the ranges of all pods, required
	Bind       string        // address:port of /healthz, /readyz, /metrics and /status; empty: none
}

// KeepRouter follows the nodes and keeps the routes of their router until ctx ends. The routes stay.
func KeepRouter(ctx context.Context, o RouterOptions) error {
	driver, err := tor.NewDriver(o.Format, o.Command)
	if err != nil {
		return err
	}
	client, err := routerClient(o.Kubeconfig)
	if err != nil {
		return err
	}
	var k *keep.Keeper[[]tor.Running, tor.RouterChange]
	nodes := followNodes(client, "", toTable, func(*table.Node) { k.Changed() })
	k = keep.New(tor.NewRouter(driver, o.Cluster), keep.Options{Nodes: nodes.List})

	stop, err := serve(ctx, o.Bind, func() Status { return routerStatus(o, k.Status()) })
	if err != nil {
		return err
	}
	defer stop()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { nodes.Run(ctx) })
	k.Run(ctx)
	return nil
}

// routerStatus describes the router as a node is described. Its routes lead to all pods.
func routerStatus(o RouterOptions, r keep.Status) Status {
	s := Status{Node: "router", Mode: "tor", PodCIDR: fmt.Sprint(o.Cluster.Pods), Routes: []keep.RouteStatus{}}
	if !r.Known && r.Error == "" {
		r.Error = "the routes were not checked yet"
	}
	s.add(r)
	return s
}
