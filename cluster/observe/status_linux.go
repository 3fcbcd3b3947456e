// Package observe asks a running local cluster how it is: its supervisor, the API, and the programs of each node.
// Package inspect is what commands need that know less of a cluster.
package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/cluster/status"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/proxy/health"
)

// Status looks at the processes, asks the API about the nodes, and every node's routes and proxy about their
// objects.
func Status(ctx context.Context, l layout.Layout) (*status.Status, error) {
	c, err := config.Read(l)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no cluster in %s: run `porthole up` first", l.Dir)
	}
	if err != nil {
		return nil, err
	}

	processes, err := supervise.States(l.RunDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	active, standby := supervise.Supervisors(l.RunDir())
	if active.PID == 0 && standby.PID == 0 && !slices.ContainsFunc(processes, supervise.State.Alive) {
		return nil, fmt.Errorf("the cluster in %s does not run: `porthole up` starts it, `porthole down` removes it",
			l.Dir)
	}

	ctx, cancel := context.WithTimeout(ctx, slow.Limit(10*time.Second))
	defer cancel()
	s := &status.Status{
		Supervisor: active, Standby: standby, Dir: l.Dir, Kubeconfig: l.Kubeconfig(), Registry: config.Registry(),
		API: fmt.Sprintf("https://127.0.0.1:%d", c.APIPort),
	}
	objects, err := nodeObjects(ctx, l)
	if err != nil {
		s.Error = err.Error()
	}

	for _, n := range c.Nodes() {
		s.Nodes = append(s.Nodes, status.OfNode(n, c.Lab().Netns(n.Name), objects[n.Name]))
	}
	var wg sync.WaitGroup
	services := network.Of(c).Services
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Processes = processesAt(processes, n.Name)
		if n.OS == "windows" && c.WindowsKubeletOnly {
			continue // nobody of ours to ask
		}
		n.Boot = bootOf(l, n, objects[n.Name])
		n.Processes = append(n.Processes, servicesOf(l, c, n.Name)...)
		wg.Go(func() { askNode(ctx, n, services == nil) })
	}
	wg.Wait()
	if services != nil {
		s.ShareServices(services(ctx, c))
	}
	s.Processes = processesAt(processes, "")
	return s, nil
}

// processesAt returns the processes of a node; "" for those of no node.
func processesAt(all []supervise.State, node string) (of []supervise.State) {
	for _, p := range all {
		if p.Node == node {
			of = append(of, p)
		}
	}
	return of
}

// bootOf reads the boot record of a Windows node; nil if there is none, or if the API does not tell which boot the
// node is in.
func bootOf(l layout.Layout, n *status.NodeStatus, object *v1.Node) *bootrecord.Boot {
	if object == nil || n.OS != "windows" {
		return nil
	}
	boot, err := bootrecord.ReadBoot(l.NodeFile(n.Name, "prefix", "drive_c", "ProgramData", "Porthole"),
		object.Status.NodeInfo.BootID)
	if err != nil || boot.Empty() { // half a record is none
		return nil
	}
	return &boot
}

func nodeObjects(ctx context.Context, l layout.Layout) (map[string]*v1.Node, error) {
	client, err := kube.NewCluster(l.Kubeconfig())
	if err != nil {
		return nil, err
	}
	list, err := client.Nodes(ctx)
	objects := map[string]*v1.Node{}
	for i := range list {
		objects[list[i].Name] = &list[i]
	}
	return objects, err
}

// askNode asks the node's own programs over its loopback: its routes and, if it has one, its proxy.
func askNode(ctx context.Context, n *status.NodeStatus, proxy bool) {
	client := inspect.ClientIn(platform.NetnsPath(n.Netns))
	defer client.CloseIdleConnections()
	askRoutes(ctx, client, n)
	if !proxy {
		return
	}
	if n.OS == "windows" {
		n.Services = askServices(ctx, client)
		return
	}
	if err := inspect.Get(ctx, client, "http://127.0.0.1:10256/healthz"); err != nil {
		n.Services.Problems = append(n.Services.Problems, "kube-proxy: "+err.Error())
	}
}

// askRoutes reads the status of `porthole routes`, which has a line for each problem.
func askRoutes(ctx context.Context, client *http.Client, n *status.NodeStatus) {
	var answer struct {
		status.Counts
		Mode  string
		Peers []status.Peer
	}
	if err := inspect.Document(ctx, client, "http://127.0.0.1:10261/status", &answer); err != nil {
		n.Routes = status.Counts{Error: err.Error()}
		return
	}
	n.Routes = answer.Counts
	n.Network = answer.Mode
	n.Peers = answer.Peers
}

// askServices reads the status of our service proxy.
func askServices(ctx context.Context, client *http.Client) status.Counts {
	var answer health.Status
	if err := inspect.Document(ctx, client, "http://127.0.0.1:10249/status", &answer); err != nil {
		return status.Counts{Error: err.Error()}
	}
	return status.CountServices(answer)
}

// servicesOf returns the services of a node whose programs are services, as its service manager tells; none of another
// node, or if the manager does not answer: its own process is shown too.
func servicesOf(l layout.Layout, c config.Cluster, node string) (list []supervise.State) {
	for _, n := range c.Nodes() {
		h := c.Host(l, n)
		if n.Name != node || !h.ServiceManager {
			continue
		}
		services, _ := h.Services() // see above
		for _, s := range services {
			list = append(list, supervise.State{Name: node + "/" + s.Name, Node: node, Phase: s.Status.State.String(),
				Restarts: s.Failures})
		}
	}
	return list
}
