package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/cni/sweep"
	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/routes/adapters"
	"porthole.dev/porthole/routes/hostroutes"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// networkPeriod is how long the pod network is left alone while nothing changes. After a failure it is tried again
// sooner.
const networkPeriod = 10 * time.Second

var networkRetry = retry.Backoff{First: time.Second, Max: time.Second}

// agent is one node's part of the network.
type agent struct {
	o       Options
	modes   modeTable
	cluster cluster
	maker   maker
	onLink  func(netip.Addr) ([]netip.Prefix, error)
	wake    wakeup.Signal // something changed: check the network again
	saving  wakeup.Signal // the same, for memory
	drain   drain

	// Of the loop only.
	made    keeper   // the chosen mode, once the node's address is known
	keeping bool     // the host's adapters are kept
	warned  []string // reasons and problems that an event was written for
	written string   // status of the condition that was written last
	stale   bool     // a CNI configuration of an earlier boot was there
	// sweeping: what sandboxes of the past hold is being freed
	sweeping bool
	others   []string // what was said about CNI configurations of others

	mu      sync.Mutex
	keeper  keeper // the chosen mode, once it runs
	network networkState
}

type networkState struct {
	podnet.Options
	Err     string              // why the pod network is not ready
	Differs []podnet.Difference // how the network that HNS reports differs from what it was asked for
}

// cluster is what the agent needs of the API server; client.go implements it.
type cluster interface {
	// List returns all nodes; ok is false until they are known completely.
	List() (nodes []table.Node, ok bool)
	// Self returns this node with its annotations and conditions; nil if the cluster does not have it, or not yet.
	Self() *corev1.Node
	// SetCondition writes a condition of this node.
	SetCondition(ctx context.Context, condition corev1.NodeCondition) error
	// Pod returns the UID and the annotations of a pod.
	Pod(ctx context.Context, namespace, name string) (uid string, annotations map[string]string, err error)
	// Annotate sets annotations of this node.
	Annotate(ctx context.Context, annotations map[string]string) error
	// FollowPods returns the pods of this node. changed is called after each change, from any goroutine.
	FollowPods(changed func()) podList
	// Warn writes an event on this node. It does not block.
	Warn(reason, message string)
}

// maker makes this node's pod network; one per operating system.
type maker interface {
	// ensure makes what is missing. The error for a network of our name that does not fit and is in use is a
	// *podnet.DiffersError.
	ensure(ctx context.Context, o podnet.Options, wanted podnet.Network) (podnet.Made, error)
	// conf returns this system's CNI configuration.
	conf(wanted podnet.Network) podnet.Conf
	// heldBack returns the name of the CNI configuration that is removed after a reboot (see holdBack); empty: none is.
	heldBack() string
	// sweeper frees what sandboxes of the past hold; nil on a system where the CNI plugins are others'.
	sweeper() *sweep.Sweeper
	// adapters returns the keeper of the host's network adapters; nil on a system that needs none.
	adapters() adapterKeeper
	// hostRoutes returns the keeper of the routes that the host has beside ours; nil on a system that needs none.
	hostRoutes() routeSaver
}

// routeSaver is implemented by hostroutes.Keeper.
type routeSaver interface {
	// Run puts lost routes of the host back until ctx ends.
	Run(ctx context.Context)
	Status() hostroutes.Status
}

// adapterKeeper is implemented by adapters.Keeper.
type adapterKeeper interface {
	// Sync makes one pass. wanted also holds for all later passes.
	Sync(ctx context.Context, wanted adapters.Wanted) error
	// Run makes passes until ctx ends.
	Run(ctx context.Context)
	Status() adapters.Status
}

// ranged is a keeper that knows whether pods of an earlier range of the node run. Other modes find out when their
// network is made.
type ranged interface {
	checkRange(ctx context.Context, subnet netip.Prefix) error
}

func newAgent(o Options, modes modeTable, maker maker) *agent {
	return &agent{o: o, modes: modes, maker: maker, onLink: onLink, wake: wakeup.New(), saving: wakeup.New()}
}

// changed is called after each change of the cluster's nodes. The routes come first: the network depends on this node
// alone.
func (a *agent) changed(*table.Node) {
	if k := a.routeKeeper(); k != nil {
		k.Changed()
	}
	a.saving.Wake()
	a.wake.Wake()
}

// routeKeeper is nil until the pod network was made for the first time.
func (a *agent) routeKeeper() keeper {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keeper
}

// loop makes the pod network, then starts the routes, and comes back when something changed.
func (a *agent) loop(ctx context.Context, tasks *sync.WaitGroup) {
	held := false
	calm := false
	last := time.Now()
	loop.Loop{Wake: a.wake, Period: networkPeriod, Retry: networkRetry, Pass: func(ctx context.Context) error {
		if !calm && time.Since(last) >= networkRetry.First {
			calm = true
			debug.FreeOSMemory() // the first passes leave garbage several times the size of what is kept
		}
		var err error
		if !held {
			err = a.holdBack(ctx)
			held = err == nil
		}
		if err = errors.Join(err, a.step(ctx, tasks)); err != nil {
			a.report(ctx, err)
			a.unavailable(ctx, err)
		}
		last = time.Now()
		return err
	}}.Run(ctx)
}

// report keeps what is wrong for the status, and logs it if it is new. A network that does not fit is an event too,
// because somebody has to decide about it.
func (a *agent) report(ctx context.Context, err error) {
	a.mu.Lock()
	known := a.network.Err == err.Error()
	a.network.Err = err.Error()
	a.mu.Unlock()
	if known {
		return
	}

	klog.FromContext(ctx).Error(err, "The pod network is not ready")
	var decide interface {
		error
		NeedsDecision()
	}
	if errors.As(err, &decide) {
		a.cluster.Warn("NetworkDiffers", err.Error())
	}
}

// step makes one pass: the network, then the adapters, then the CNI configuration, then the routes. The order matters:
// the CNI configuration makes the runtime call the node ready for pods, so it is written only when their network
// exists. The first pass that gets this far starts the loop of the routes, which goes on by itself.
func (a *agent) step(ctx context.Context, tasks *sync.WaitGroup) error {
	o, err := a.facts()
	if err != nil {
		return err
	}
	k, err := a.makeKeeper(o)
	if err != nil {
		return err
	}
	a.followDrain(ctx, tasks)
	wanted, err := k.Network(o)
	if err != nil {
		return err
	}

	if r, is := k.(ranged); is {
		if err := r.checkRange(ctx, o.PodCIDR); err != nil {
			return err
		}
	}
	made, err := a.maker.ensure(ctx, o, wanted)
	logMade(ctx, made, o)
	if err != nil {
		return err
	}
	if !wanted.Apart { // else no packet of a pod passes the host's stack
		if err := a.keepAdapters(ctx, tasks,
			adapters.Wanted{Node: o.Node, Host: o.HostAddr(), Node6: o.Second.Node, Host6: o.Host6()}); err != nil {
			return err
		}
	}
	if err := a.writeConf(ctx, wanted); err != nil {
		return err
	}
	if err := errors.Join(a.recordBoot(o.PodCIDR), a.tellServices(ctx, k)); err != nil {
		return err
	}

	a.startSweep(ctx, tasks, a.maker.conf(wanted))
	if a.routeKeeper() == nil {
		a.drain.await(ctx)
		k.Sync(ctx)
		a.setKeeper(k)
		tasks.Go(func() { k.Run(ctx) })
	}
	a.mu.Lock()
	a.network = networkState{Options: o, Differs: made.Differs}
	a.mu.Unlock()
	return errors.Join(a.announce(ctx, k, table.Node{Addr: o.Node}), a.publish(ctx, k.Status()))
}

// keepAdapters makes the host's adapters carry packets of pods. The first call starts a task that keeps them so until
// ctx ends.
func (a *agent) keepAdapters(ctx context.Context, tasks *sync.WaitGroup, wanted adapters.Wanted) error {
	keeper := a.maker.adapters()
	if keeper == nil {
		return nil
	}
	err := keeper.Sync(ctx, wanted)
	if !a.keeping {
		a.keeping = true
		tasks.Go(func() { keeper.Run(ctx) })
	}
	return err
}

func logMade(ctx context.Context, made podnet.Made, o podnet.Options) {
	logger := klog.FromContext(ctx)
	if len(made.Replaced) > 0 {
		logger.Info("Replaced the HNS network", "network", podnet.NetworkName, "differences", fmt.Sprint(made.Replaced))
	}
	if made.Changed {
		logger.Info("Made the pod network", "podCIDR", o.PodCIDR, "node", o.Node)
	}
}

func (a *agent) writeConf(ctx context.Context, wanted podnet.Network) error {
	if a.o.ConfDir == "" {
		return nil
	}
	conf := a.maker.conf(wanted)
	changed, err := conf.Write(a.o.ConfDir)
	if changed {
		klog.FromContext(ctx).Info("Wrote the CNI configuration", "dir", a.o.ConfDir, "file", conf.Name)
	}
	if err == nil {
		a.lookBeside(ctx, conf.Name)
	}
	return err
}

// makeKeeper returns the chosen mode. It is made once, because it holds resources of the host.
func (a *agent) makeKeeper(o podnet.Options) (keeper, error) {
	if a.made != nil {
		return a.made, nil
	}

	e := environment{
		Node: a.o.Node, Addr: o.Node, NodeIP: a.o.NodeIP, Cluster: a.o.Cluster, Cluster6: a.o.Cluster6,
		Keep:     keep.Options{Nodes: a.cluster.List},
		Annotate: a.cluster.Annotate, VXLAN: a.o.VXLAN, BGP: a.o.BGP,
		Services: a.o.Services, Services6: a.o.Services6, NodeBits4: a.o.NodeBits4, NodeBits6: a.o.NodeBits6,
		OVN: a.o.OVN, Pod: a.cluster.Pod, Pods: a.drain.pods,
	}
	e.Keep.Claims = table.Claims{Self: e.Node, Cluster: e.cluster()}
	k, err := a.modes.start(a.o.Mode, e)
	if err == nil {
		a.made = k
	}
	return k, err
}

func (a *agent) setKeeper(k keeper) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keeper = k
}

// facts returns what the pod network depends on: this node's range and address from the cluster, and the options.
func (a *agent) facts() (podnet.Options, error) {
	nodes, ok := a.cluster.List()
	if !ok {
		return podnet.Options{}, errors.New("the nodes of the cluster are not known yet")
	}
	self, found := table.Node{}, false
	for _, n := range nodes {
		if n.Name == a.o.Node {
			self, found = n, true
		}
	}
	if !found {
		return podnet.Options{}, fmt.Errorf("node %s is not in the cluster yet", a.o.Node)
	}

	if a.o.NodeIP.IsValid() {
		self.Addr = a.o.NodeIP
	}
	if len(self.PodCIDRs) == 0 {
		return podnet.Options{}, fmt.Errorf("node %s has no pod range yet: %s", self.Name, a.o.rangeGiver())
	}
	if !self.Addr.IsValid() {
		return podnet.Options{}, fmt.Errorf("node %s has no internal address yet, and --node-ip is not given",
			self.Name)
	}
	second, err := a.second(self)
	if err != nil {
		return podnet.Options{}, err
	}
	underlay, err := a.onLink(self.Addr)
	if err != nil {
		return podnet.Options{}, err
	}

	o := podnet.Options{
		PodCIDR: self.PodCIDRs[0], Second: second, Cluster: a.o.Cluster, Services: a.o.Services, Node: self.Addr,
		Underlay: underlay,
		DNS:      a.o.DNS, Search: a.o.Search, DataDir: a.o.DataDir,
	}
	return o, o.Validate()
}

// rangeGiver tells who gives pod ranges to nodes.
func (o Options) rangeGiver() string {
	if o.VXLAN.Hybrid {
		return "OVN-Kubernetes gives it to nodes that --no-hostsubnet-nodes chooses, of --hybrid-overlay-cluster-subnets (annotation k8s.ovn.org/hybrid-overlay-node-subnet)"
	}
	return "the controller manager assigns it (--allocate-node-cidrs)"
}

// second returns what the node has of IPv6: its second pod range, if the cluster has one for services too.
func (a *agent) second(self table.Node) (podnet.Second, error) {
	if len(self.PodCIDRs) < 2 {
		return podnet.Second{}, nil
	}
	s := podnet.Second{PodCIDR: self.PodCIDRs[1], Cluster: a.o.Cluster6, Services: a.o.Services6, Node: self.Addr6}
	if a.o.NodeIP6.IsValid() {
		s.Node = a.o.NodeIP6
	}
	switch {
	case !s.Cluster.IsValid() || !s.Services.IsValid():
		return s,
			fmt.Errorf(
				"node %s has the pod range %s too, but --cluster-cidr and --service-cidr have no range of its family: give both of each with a comma", self.Name, s.PodCIDR)
	case !s.Node.IsValid():
		return s,
			fmt.Errorf(
				"node %s has the pod range %s too, but no internal address of its family (--node-ip of the kubelet takes two, with a comma)", self.Name, s.PodCIDR)
	}
	return s, nil
}
