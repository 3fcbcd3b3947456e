package routes

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/apiconn"
	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/bgp"
	"porthole.dev/porthole/routes/ovn"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/vxlan"
)

// Options of Run.
type Options struct {
	Node       string       // this node's name, required
	Mode       string       // one of Modes, required
	Kubeconfig string       // required
	NodeIP     netip.Addr   // zero: the node's first internal address in the API
	NodeIP6    netip.Addr   // its address of IPv6, likewise
	Cluster    netip.Prefix // all pods, required
	Services   netip.Prefix // all service addresses, required
	// Cluster6 and Services6 are the same of IPv6; zero: the cluster has IPv4 only.
	Cluster6, Services6 netip.Prefix
	// NodeBits4 and NodeBits6 are the lengths of nodes' pod ranges; 0: those of this node.
	NodeBits4, NodeBits6 int

	ConfDir string // where the CNI configuration goes; empty: none is written
	BootID  string // of this boot of the host; empty: not known (see holdBack)
	// StateDir is the folder in which a Windows node keeps the boot record and, while HNS changes its networks, the
	// host's routes, and any node in the mode bgp the nodes of the cluster; empty: it keeps nothing. Required on
	// Windows.
	StateDir string
	DataDir  string   // where CNI keeps addresses on a Linux node; empty: the plugin's default
	DNS      []string // name servers for the CNI configuration (Windows)
	Search   []string

	VXLAN vxlan.Config // of the mode vxlan, required there
	BGP   bgp.Config   // of the mode bgp
	// of the mode ovn: Remote, Database, EncapType and Datapath are required there; Node and ranges are taken from
	// above
	OVN ovn.Options

	// ReplaceNetwork allows to delete an HNS network of our name that does not fit, together with its endpoints.
	ReplaceNetwork bool
	// Adapter is the network adapter that a new HNS network is bound to; empty: the one with the node's address.
	Adapter string
	// RuntimeEndpoint is the container runtime's CRI on a Windows node, which says whose networks are to be kept (see
	// cni/sweep); empty: nothing is freed.
	RuntimeEndpoint string
	ReadOnly        bool   // this node's object is not written: neither its condition nor its annotations
	Bind            string // address:port of /healthz, /readyz, /metrics and /status; empty: none
}

// garbagePercent is how much garbage is allowed, in percent of the live heap: the agent is idle most of the time, and
// runs on every node.
const garbagePercent = 25

// limitGarbage does nothing if GOGC or GOMEMLIMIT is set: then the user decides.
func limitGarbage(percent int) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(percent)
	}
}

// Run works until ctx ends. Network, routes and configuration stay behind.
func Run(ctx context.Context, o Options) error {
	if err := platform.CheckBuild(); err != nil {
		return err
	}
	plan, err := component.Order((&parts{o: o}).components())
	if err != nil {
		return err
	}
	return plan.Run(ctx)
}

// parts is the agent with what it needs. Each field is set by the component of the name beside it.
type parts struct {
	o      Options
	client *networkapi.Client            // API
	maker  maker                         // host
	agent  *agent                        // agent
	nodes  *networkapi.Nodes[table.Node] // agent
	events *networkapi.NodeEvents        // agent
	memory *memory                       // agent; nil: nothing is kept
}

// stopWithin is how long the network may take to end: a change of the host that has begun is finished.
const stopWithin = time.Minute

// components are the parts in the order in which they start.
func (p *parts) components() []component.Component {
	var closePages func()
	return []component.Component{
		{Name: "API", Start: func(context.Context) (err error) {
			p.client, _, err = networkapi.New(apiconn.Options{Kubeconfig: p.o.Kubeconfig, UserAgent: "porthole-routes",
				QPS: 20, Burst: 40})
			return err
		}},
		{Name: "host", Start: func(context.Context) (err error) {
			p.maker, err = newMaker(p.o)
			return err
		}},
		{Name: "agent", Needs: []string{"API", "host"}, Start: p.makeAgent,
			Stop: func(context.Context) { p.events.Close() }},
		{Name: "pages", Needs: []string{"agent"}, Start: func(ctx context.Context) (err error) {
			closePages, err = serve(ctx, p.o.Bind, p.agent.status)
			return err
		}, Stop: func(context.Context) { closePages() }},

		// What works until the program ends.
		{Name: "nodes", Needs: []string{"agent"},
			Run: func(ctx context.Context) error { p.nodes.Run(ctx); return nil }},
		{Name: "memory", Needs: []string{"agent"}, Run: func(ctx context.Context) error {
			if p.memory != nil {
				p.memory.run(ctx, p.agent.saving)
			}
			return nil
		}},
		{Name: "host's routes", Needs: []string{"host"}, Run: func(ctx context.Context) error {
			if routes := p.maker.hostRoutes(); routes != nil {
				routes.Run(ctx)
			}
			return nil
		}},
		{Name: "network", Needs: []string{"agent", "pages"}, StopWithin: stopWithin,
			Run: func(ctx context.Context) error {
				var tasks sync.WaitGroup
				defer tasks.Wait()
				p.agent.loop(ctx, &tasks)
				return nil
			}},
	}
}

// makeAgent makes the agent, with what it knows of the cluster.
func (p *parts) makeAgent(ctx context.Context) error {
	limitGarbage(garbagePercent)
	p.agent = newAgent(p.o, modes, p.maker)
	p.agent.warnNoConf(ctx)
	keep := toTable
	if p.o.VXLAN.Hybrid {
		keep = toHybrid
	}
	p.nodes = followNodes(p.client, p.o.Node, keep, p.agent.changed)
	p.events = networkapi.NewNodeEvents(ctx, p.client, "porthole-routes", p.o.Node)
	p.agent.cluster = clusterClient{client: p.client, node: p.o.Node, nodes: p.nodes, readOnly: p.o.ReadOnly,
		NodeEvents: p.events}
	if p.o.StateDir == "" {
		return nil
	}

	p.memory = newMemory(p.agent.cluster, filepath.Join(p.o.StateDir, NodesFile))
	p.agent.cluster = p.memory
	if p.o.Mode == BGP {
		p.agent.drain.memory = p.memory
	}
	return nil
}

// warnNoConf says at the start that no CNI configuration is written, on a node whose runtime needs ours. The folder
// has no default, because installations of containerd on Windows read different ones.
func (a *agent) warnNoConf(ctx context.Context) {
	if a.maker.heldBack() == "" || a.o.ConfDir != "" {
		return
	}
	klog.FromContext(ctx).
		Info("No CNI configuration is written: without one the container runtime has no network and the node does not "+
			"become ready. Give the folder that the runtime reads with --cni-conf-dir", "containerdDefault",
			`C:\Program Files\containerd\cni\conf`,
			"sigWindowsToolsDefault", `C:\etc\cni\net.d`)
}
