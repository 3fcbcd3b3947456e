package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/proxy/health"
)

// ReadStatus looks at the processes, asks the API about the nodes, and every node's routes and proxy about their
// objects.
func ReadStatus(ctx context.Context, l Layout) (*Status, error) {
	config, err := readConfig(l)
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
	s := &Status{
		Supervisor: active, Standby: standby, Dir: l.Dir, Kubeconfig: l.Kubeconfig(), Registry: registryAddress(),
		API: fmt.Sprintf("https://127.0.0.1:%d", config.APIPort),
	}
	objects, err := nodeObjects(ctx, l)
	if err != nil {
		s.Error = err.Error()
	}

	for _, n := range config.Nodes() {
		s.Nodes = append(s.Nodes, nodeStatus(n, config.lab().Netns(n.Name), objects[n.Name]))
	}
	var wg sync.WaitGroup
	services := config.network().services
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Processes = processesAt(processes, n.Name)
		if n.OS == "windows" && config.WindowsKubeletOnly {
			continue // nobody of ours to ask
		}
		n.Boot = bootOf(l, n, objects[n.Name])
		n.Processes = append(n.Processes, servicesOf(l, config, n.Name)...)
		wg.Go(func() { askNode(ctx, n, services == nil) })
	}
	wg.Wait()
	if services != nil {
		s.shareServices(services(ctx, config))
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
func bootOf(l Layout, n *NodeStatus, object *v1.Node) *bootrecord.Boot {
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

func nodeObjects(ctx context.Context, l Layout) (map[string]*v1.Node, error) {
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
func askNode(ctx context.Context, n *NodeStatus, proxy bool) {
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
	if err := get(ctx, client, "http://127.0.0.1:10256/healthz"); err != nil {
		n.Services.Problems = append(n.Services.Problems, "kube-proxy: "+err.Error())
	}
}

// askRoutes reads the status of `porthole routes`, which has a line for each problem.
func askRoutes(ctx context.Context, client *http.Client, n *NodeStatus) {
	var answer struct {
		Counts
		Mode  string
		Peers []Peer
	}
	if err := ask(ctx, client, "http://127.0.0.1:10261/status", &answer); err != nil {
		n.Routes = Counts{Error: err.Error()}
		return
	}
	n.Routes, n.Network, n.Peers = answer.Counts, answer.Mode, answer.Peers
}

// askServices reads the status of our service proxy.
func askServices(ctx context.Context, client *http.Client) Counts {
	var answer health.Status
	if err := ask(ctx, client, "http://127.0.0.1:10249/status", &answer); err != nil {
		return Counts{Error: err.Error()}
	}
	return countServices(answer)
}

// ask reads a JSON document of at most a megabyte.
func ask(ctx context.Context, client *http.Client, url string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(v)
}
