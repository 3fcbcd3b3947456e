package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/routes/hostgw"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// Options of Run.
type Options struct {
	Node       string       // this node's name, required
	Kubeconfig string       // required
	NodeIP     netip.Addr   // zero: the node's first internal address in the API
	Cluster    netip.Prefix // all pods, required
	Services   netip.Prefix // all service addresses, required
	ConfDir    string       // where the CNI configuration goes; empty: none is written
	DataDir    string       // where CNI keeps addresses on a Linux node; empty: the plugin's default
	DNS        []string     // name servers for the CNI configuration (Windows)
	Search     []string
	Bind       string // address:port of /healthz, /readyz, /metrics and /status; empty: none
}

// patience is how long the pod network rests between looks when nothing changed; retry, when the last look failed.
const (
	patience = 10 * time.Second
	retry    = time.Second
)

// agent is a running node part.
type agent struct {
	o      Options
	client kubeClient
	nodes  *kube.Nodes
	events *kube.NodeEvents
	maker  maker
	wake   chan struct{} // something changed: look at the network again

	mu      sync.Mutex
	keeper  *hostgw.Keeper
	network networkState
	warned  []string // refusals that were told of
	said    string   // the condition that was written last
}

type networkState struct {
	podnet.Options
	Ready bool
	Err   string
}

// maker makes this node's pod network; one per operating system.
type maker interface {
	ensure(ctx context.Context, o podnet.Options) (changed bool, err error)
	// conf is the CNI configuration and its file's name.
	conf(o podnet.Options) (name string, data []byte, err error)
}

// kubeClient writes to the cluster; made in client.go.
type kubeClient interface {
	setCondition(ctx context.Context, node string, c corev1.NodeCondition) error
}

// Run works until ctx ends. Network, routes and configuration stay behind.
func Run(ctx context.Context, o Options) error {
	a := &agent{o: o, wake: make(chan struct{}, 1)}
	client, _, err := kube.Load(o.Kubeconfig, "porthole-routes", 20, 40)
	if err != nil {
		return err
	}
	a.client = clusterClient{client}
	if a.nodes, err = kube.NewNodes(client, a.changed); err != nil {
		return err
	}
	if a.maker, err = newMaker(); err != nil {
		return err
	}
	stopServing, err := a.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServing()
	a.events = kube.NewNodeEvents(ctx, client, "porthole-routes", o.Node)
	defer a.events.Close()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { a.nodes.Run(ctx) })
	a.loop(ctx, &tasks)
	return nil
}

func (a *agent) changed() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
	if k := a.routeKeeper(); k != nil {
		k.Changed()
	}
}

func (a *agent) routeKeeper() *hostgw.Keeper {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keeper
}

// loop makes the pod network, then starts the routes, and comes back when something changed.
func (a *agent) loop(ctx context.Context, tasks *sync.WaitGroup) {
	logger := klog.FromContext(ctx)
	for {
		wait := patience
		err := a.step(ctx, tasks)
		if err != nil {
			wait = retry
			if a.setError(err.Error()) {
				logger.Error(err, "The pod network is not ready")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-time.After(wait):
		}
	}
}

// setError keeps what is wrong and tells whether it is news.
func (a *agent) setError(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	news := a.network.Err != text
	a.network.Err, a.network.Ready = text, false
	return news
}

func (a *agent) step(ctx context.Context, tasks *sync.WaitGroup) error {
	o, err := a.facts()
	if err != nil {
		return err
	}
	changed, err := a.maker.ensure(ctx, o)
	if err != nil {
		return err
	}
	if changed {
		klog.FromContext(ctx).Info("Made the pod network", "podCIDR", o.PodCIDR, "node", a.o.Node)
	}
	if err := a.writeConf(ctx, o); err != nil {
		return err
	}
	if err := a.startRoutes(ctx, o, tasks); err != nil {
		return err
	}
	a.mu.Lock()
	a.network = networkState{Options: o, Ready: true}
	a.mu.Unlock()
	return a.tell(ctx)
}

func (a *agent) writeConf(ctx context.Context, o podnet.Options) error {
	if a.o.ConfDir == "" {
		return nil
	}
	name, data, err := a.maker.conf(o)
	if err != nil {
		return err
	}
	changed, err := podnet.WriteConf(a.o.ConfDir, name, data)
	if changed {
		klog.FromContext(ctx).Info("Wrote the CNI configuration", "dir", a.o.ConfDir, "file", name)
	}
	return err
}

// startRoutes starts the keeper once the node's address is known.
func (a *agent) startRoutes(ctx context.Context, o podnet.Options, tasks *sync.WaitGroup) error {
	if a.routeKeeper() != nil {
		return nil
	}
	hostTable, err := hostgw.NewTable(o.Node, a.o.Cluster)
	if err != nil {
		return err
	}
	k := hostgw.New(hostgw.Options{Node: a.o.Node, Nodes: routable{a.nodes}, Table: hostTable})
	k.Sync(ctx)
	a.mu.Lock()
	a.keeper = k
	a.mu.Unlock()
	tasks.Go(func() { k.Run(ctx) })
	return nil
}

// facts reads this node's range and address from the cluster.
func (a *agent) facts() (podnet.Options, error) {
	nodes, ok := a.nodes.List()
	if !ok {
		return podnet.Options{}, errors.New("the nodes of the cluster are not known yet")
	}
	for _, n := range nodes {
		if n.Name != a.o.Node {
			continue
		}
		self := toTable(n)
		if a.o.NodeIP.IsValid() {
			self.Addr = a.o.NodeIP
		}
		if len(self.PodCIDRs) == 0 {
			return podnet.Options{}, fmt.Errorf("node %s has no pod range yet: the controller manager assigns it (--allocate-node-cidrs)", n.Name)
		}
		if !self.Addr.IsValid() {
			return podnet.Options{}, fmt.Errorf("node %s has no internal address yet, and --node-ip is not given", n.Name)
		}
		underlay, err := onLink(self.Addr)
		if err != nil {
			return podnet.Options{}, err
		}
		o := podnet.Options{PodCIDR: self.PodCIDRs[0], Cluster: a.o.Cluster, Services: a.o.Services, Node: self.Addr,
			Underlay: underlay, DNS: a.o.DNS, Search: a.o.Search, DataDir: a.o.DataDir}
		return o, o.Validate()
	}
	return podnet.Options{}, fmt.Errorf("node %s is not in the cluster yet", a.o.Node)
}

// tell sets the node's condition and writes events about routes that must not exist. The network counts as available
// once it is made and no route is refused; a conflict that appears later does not take that back, because pods that
// run here would gain nothing by it.
func (a *agent) tell(ctx context.Context) error {
	status := a.routeKeeper().Status()
	var refused []string
	for _, r := range status.Routes {
		if r.State == string(table.Refused) && !slices.Contains(refused, r.Reason) {
			refused = append(refused, r.Reason)
		}
	}
	for _, reason := range refused {
		if !slices.Contains(a.warned, reason) {
			a.events.Warn("RouteRefused", reason)
		}
	}
	a.warned = refused
	condition := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RoutesReady",
		Message: "the pod network is made and the routes to the other nodes are kept"}
	switch {
	case a.said == string(corev1.ConditionFalse):
		return nil
	case len(refused) > 0:
		condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "RouteRefused", refused[0]
	case !status.Known || status.Error != "":
		condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "RoutesUnknown", status.Error
	}
	if a.said == string(condition.Status) {
		return nil
	}
	if err := a.client.setCondition(ctx, a.o.Node, condition); err != nil {
		return err
	}
	a.said = string(condition.Status)
	klog.FromContext(ctx).Info("Set the node's network condition", "unavailable", condition.Status, "reason", condition.Reason)
	return nil
}
