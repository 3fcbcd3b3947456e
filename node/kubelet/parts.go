package kubelet

import (
	"context"
	"os"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/numa"
	"porthole.dev/porthole/kubelet/pin"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/userns"
	"porthole.dev/porthole/kubelet/volume"
)

// parts is the program of one kubelet. The first fields are there from the beginning. Each of the others is set by one
// component, when it starts, and read by those that need the component (see components).
type parts struct {
	given *Options
	cfg   *v1beta1.KubeletConfiguration
	// end ends the program: with nil because it was asked to, else with the cause.
	end context.CancelCauseFunc
	// pods and changed are there before what tells of changes: changed has the node's status worked out again.
	pods    *core.Pods
	changed wakeup.Signal

	host      host             // host
	meter     *meter.Meter     // figures
	addresses *nodeAddresses   // addresses
	resolver  *hostResolver    // resolver
	burst     func(bool)       // garbage
	machine   hardware         // machine
	node      node             // node
	pinned    pinned           // pins
	ids       *userns.Manager  // user ids; nil on Windows
	gate      *bootrecord.Gate // network gate; nil is open
	api       apiServer        // API
	runtime   criRuntime       // runtime
	images    images           // images
	cgroups   *cgroup.Tree     // cgroups; nil on Windows
	plugins   *plugins         // plugins; nil without a cluster
	volumes   *volume.Manager  // volumes
	facts     *factlog.Log     // facts; nil records nothing
	allot     *allot.Manager   // allotments
	kubelet   *core.Kubelet    // pods
	server    *server          // server
}

// host is the machine, and what this node has on it.
type host struct {
	platform.Host
	name       string // of the node
	root, logs string // the kubelet's folder, and that of the pods' logs
}

// hardware says where processors and memory are; nil if that is not known. Nobody gets the processors in kept alone,
// and pods do not get what is reserved.
type hardware struct {
	*numa.Machine
	kept     cpuset.CPUSet
	reserved v1.ResourceList
}

// node describes the node object, and when pods are evicted.
type node struct {
	nodestatus.Options
	evict evict.Desired
}

// pinned is who has which processors and memory alone; manager is nil if nobody can.
type pinned struct {
	topology allot.Topology
	manager  *pin.Manager
	noQuota  bool // of the CPU, for containers that have processors alone
}

// apiServer is the API server: client is nil on a node without a cluster, whose API does nothing.
type apiServer struct {
	core.API
	client *kube.Kubelet
}

// criRuntime is the container runtime. images is the connection to the image service, which may be the same.
type criRuntime struct {
	*runtime.Runtime
	conn, images *grpc.ClientConn
}

// images pulls images, and removes those that nobody uses.
type images struct {
	*image.Puller
	unused *image.GC
}

// report has the node reported at once, and lets pods that wait for something of the node try again. It does not block.
func (p *parts) report() {
	p.changed.Wake()
	p.pods.WakeAll()
}

// components are the parts in the order in which they start. What a component needs is set, and ready, when it starts;
// where nothing is needed the order of the list counts: a start that is refused has changed nothing of the machine.
func (p *parts) components() []component.Component {
	list := []component.Component{
		{Name: "lock", Start: func(ctx context.Context) error {
			return takeLock(ctx, p.given, func() { p.end(nil) })
		}},
		{Name: "host", Needs: []string{"lock"}, Start: p.readHost},
		{Name: "figures", Needs: []string{"host"}, Start: p.beginFigures},
		{Name: "addresses", Needs: []string{"host"}, Start: p.beginAddresses,
			Ready: func(ctx context.Context) error { return p.addresses.wait(ctx) }},
		{Name: "machine", Needs: []string{"host"}, Start: p.readMachine},
		{Name: "network gate", Needs: []string{"host"}, Start: p.openGate},
		{Name: "node", Needs: []string{"addresses", "machine", "network gate"}, Start: p.describeNode},
		{Name: "pins", Needs: []string{"machine"}, Start: p.givePins},
		{Name: "user ids", Needs: []string{"host"}, Start: p.giveIDs},
		{Name: "garbage", Start: func(context.Context) error { p.burst = collectLessInBursts(os.Getenv); return nil }},
		{Name: "resolver", Needs: []string{"addresses"}, Start: p.readResolver},
		{Name: "API", Needs: []string{"host"}, Start: p.connect, Stop: p.disconnect},
		{Name: "privileges", Start: func(ctx context.Context) error { return privileges(ctx, p.cfg, p.given) }},
		{Name: "programs", Run: func(ctx context.Context) error { placePrograms(ctx, p.cfg); return nil }},
		{Name: "mounts", Needs: []string{"host"}, Start: p.shareMounts},
		{Name: "runtime", Needs: []string{"host", "figures", "mounts"}, Start: p.connectRuntime, Stop: p.closeRuntime},
		{Name: "cgroups", Needs: []string{"pins", "runtime"}, Start: p.giveCgroups},
		{Name: "images", Needs: []string{"API", "runtime"}, Start: p.makeImages},
		{Name: "plugins", Needs: []string{"API", "figures"}, Start: p.makePlugins},
		{Name: "volumes", Needs: []string{"API", "figures", "plugins"}, Start: p.makeVolumes,
			Stop: func(context.Context) { p.volumes.Close() }},
		{Name: "facts", Start: p.recordFacts},
		{Name: "allotments", Needs: []string{"pins", "user ids", "runtime", "plugins"}, Start: p.makeAllotments},
		{Name: "pods", Needs: []string{"node", "resolver", "garbage", "cgroups", "images", "volumes", "facts",
			"allotments"}, Start: p.makeKubelet},

		// What tells the pods of changes.
		{Name: "plugin watch", Needs: []string{"pods"}, Run: func(ctx context.Context) error {
			p.plugins.run(ctx, p.report)
			return nil
		}},
		{Name: "address watch", Needs: []string{"pods"}, Run: func(ctx context.Context) error {
			p.addresses.keep(ctx, p.report)
			return nil
		}},
		{Name: "network watch", Needs: []string{"pods"}, Run: func(ctx context.Context) error {
			awaitNetwork(ctx, p.gate, p.report)
			return nil
		}},
	}
	if *p.cfg.MakeIPTablesUtilChains {
		list = append(list, component.Component{Name: "chains",
			Run: func(ctx context.Context) error { keepChains(ctx); return nil }})
	}
	if *p.cfg.EnableServer {
		list = append(list, component.Component{Name: "server", Needs: []string{"pods"}, Start: p.makeServer,
			Run:  func(ctx context.Context) error { p.server.run(ctx); return nil },
			Stop: func(context.Context) { p.server.conn.Close() }})
	}
	return append(list,
		logRotation(p.cfg, func() []pod.View { return p.kubelet.View() },
			func(ctx context.Context, id string) error { return p.runtime.ReopenLog(ctx, id) }),
		component.Component{Name: "pod resources", Needs: []string{"allotments"}, Run: p.servePodResources},
		p.awaitShutdown(),
		component.Component{Name: "kubelet", Needs: []string{"pods"},
			Run: func(ctx context.Context) error { return p.kubelet.Run(ctx) }})
}
