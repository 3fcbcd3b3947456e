package ovn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"porthole.dev/porthole/internal/ovnet"
)

// deadline bounds a whole call. Runtimes wait longer than that.
const deadline = 90 * time.Second

// installWait is how long OVN may take to install a port's flows. That takes milliseconds while its databases are
// reachable. If they are not, the call fails and the runtime tries again.
const installWait = 20 * time.Second

// Plugin carries out the calls.
type Plugin struct {
	Links links
	Agent string // address of the node's agent; ovnet.AgentAddress
	// Kind is that of the switch's interfaces; see Port.
	Kind string
	// Database is that of the host's Open vSwitch if the configuration names none.
	Database string
}

// links makes the interface of a pod; one implementation per system. Each may be repeated.
type links interface {
	// Make makes the pod's interface in its namespace with these settings.
	Make(ctx context.Context, l Link) error
	// Check returns an error if the interface differs from what Make made.
	Check(ctx context.Context, l Link) error
	// Delete removes it. Gone is success.
	Delete(ctx context.Context, l Link) error
}

// Link is the interface of a pod.
type Link struct {
	Name      string // on the host; see ovnet.PodLink
	Guest     string // in the pod
	Container string
	Namespace string // path, or GUID on Windows; may be empty for Delete
	Network   string // HNS network; "" on Linux
	MAC       string
	Addr      netip.Prefix
	Gateway   netip.Addr
	MTU       int
	DNS       types.DNS
	// Userspace says that the switch is a program: checksums must be complete, and the host's own stack must not see
	// the packets.
	Userspace bool
}

// Main serves one call from the environment and standard input, and ends the process.
func Main(name string, p Plugin) {
	serve := func(do func(context.Context, call) error) func(*skel.CmdArgs) error {
		return func(args *skel.CmdArgs) error {
			c, err := read(args)
			if err != nil {
				return types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
			}
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			return do(ctx, c)
		}
	}
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: serve(func(ctx context.Context, c call) error {
			result, err := p.Add(ctx, c)
			if err != nil {
				return err
			}
			return types.PrintResult(result, c.config.CNIVersion)
		}),
		Del: serve(p.Del), Check: serve(p.Check), GC: serve(p.GC), Status: serve(p.Status),
	}, version.VersionsStartingFrom("0.1.0"), name+": ports of OVN's integration bridge for pods")
}

// call is one call of the runtime.
type call struct {
	container, namespace, iface string
	pod                         ovnet.Question
	config                      Config
}

func read(args *skel.CmdArgs) (call, error) {
	config, err := Parse(args.StdinData)
	if err != nil {
		return call{}, err
	}
	c := call{container: args.ContainerID, namespace: args.Netns, iface: args.IfName, config: config}
	for _, pair := range strings.Split(args.Args, ";") {
		switch key, value, _ := strings.Cut(pair, "="); key {
		case "K8S_POD_NAMESPACE":
			c.pod.Namespace = value
		case "K8S_POD_NAME":
			c.pod.Name = value
		case "K8S_POD_UID":
			c.pod.UID = value
		}
	}
	c.pod.Config = config.Remarks
	return c, nil
}

// link returns the pod's interface and the answer of the agent about it.
func (p Plugin) link(ctx context.Context, c call) (Link, ovnet.Answer, error) {
	if c.pod.Namespace == "" || c.pod.Name == "" {
		return Link{}, ovnet.Answer{},
			errors.New("CNI_ARGS name no pod (K8S_POD_NAMESPACE and K8S_POD_NAME): OVN's ports are for pods")
	}
	answer, err := ovnet.Ask(ctx, p.Agent, c.pod)
	if err != nil {
		return Link{}, answer, err
	}

	at, subnet, gateway, err := ovnet.ParseAnnotation(answer.Annotation)
	if err != nil {
		return Link{}, answer, fmt.Errorf("pod %s/%s: %w", c.pod.Namespace, c.pod.Name, err)
	}
	if c.config.Subnet.IsValid() && !c.config.Subnet.Contains(at.IP) {
		return Link{}, answer, fmt.Errorf(
			"pod %s/%s has the address %s, which is outside of %s, the ipam subnet of the network configuration: it must be the node's pod range",
			c.pod.Namespace, c.pod.Name, at.IP, c.config.Subnet)
	}
	if c.config.Subnet.IsValid() && c.config.Subnet != subnet { // whoever makes a pod can write its annotation
		return Link{}, answer, fmt.Errorf(
			"annotation %s of pod %s/%s says the range %s, and the ipam subnet of the network configuration is %s: "+
				"both must be the node's pod range", ovnet.Annotation, c.pod.Namespace, c.pod.Name, subnet,
			c.config.Subnet)
	}
	return Link{Name: ovnet.PodLink(c.container, c.iface), Guest: c.iface, Container: c.container,
		Namespace: c.namespace, Network: answer.Network,
		MAC: at.MAC, Addr: netip.PrefixFrom(at.IP, subnet.Bits()), Gateway: gateway, MTU: answer.MTU,
		DNS: c.config.DNS}, answer, nil
}

// open connects to the host's Open vSwitch.
func (p Plugin) open(ctx context.Context, c call) (*Switch, error) {
	return OpenSwitch(ctx, cmp.Or(c.config.Database, p.Database))
}

// Add attaches a pod. If it fails, DEL, which runtimes call after a failed ADD, takes away what it made.
func (p Plugin) Add(ctx context.Context, c call) (*types100.Result, error) {
	l, answer, err := p.link(ctx, c)
	if err != nil {
		return nil, err
	}
	sw, err := p.open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer sw.Close()
	datapath, err := sw.Datapath(ctx, c.config.Bridge)
	if err != nil {
		return nil, err
	}
	l.Userspace = datapath == "netdev"
	if err := p.Links.Make(ctx, l); err != nil {
		return nil, err
	}

	port := Port{Name: l.Name, Kind: p.Kind, Bridge: c.config.Bridge, ID: ovnet.PodPort(c.pod.Namespace, c.pod.Name),
		UID: answer.UID,
		MAC: l.MAC, IP: l.Addr.String(), MTU: l.MTU, Container: c.container}
	if err := sw.AddPort(ctx, port); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, installWait)
	defer cancel()
	if err := sw.AwaitInstalled(waiting, l.Name); err != nil {
		return nil, err
	}
	return l.result(), nil
}

func (l Link) result() *types100.Result {
	return &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: l.Guest, Mac: l.MAC, Sandbox: l.Namespace}},
		IPs: []*types100.IPConfig{{Interface: types100.Int(0), Gateway: l.Gateway.AsSlice(),
			Address: net.IPNet{IP: l.Addr.Addr().AsSlice(), Mask: net.CIDRMask(l.Addr.Bits(), 32)}}},
		Routes: []*types.Route{{Dst: net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
			GW: l.Gateway.AsSlice()}},
		DNS: l.DNS,
	}
}

// Del takes the port away, then the interface. It asks no agent: neither has to be there.
func (p Plugin) Del(ctx context.Context, c call) error {
	l := Link{Name: ovnet.PodLink(c.container, c.iface), Guest: c.iface, Container: c.container, Namespace: c.namespace}
	sw, err := p.open(ctx, c)
	if err != nil {
		return err
	}
	defer sw.Close()
	if err := sw.DeletePort(ctx, l.Name); err != nil {
		return err
	}
	return p.Links.Delete(ctx, l)
}

// Check returns an error if the pod's interface or its port is not as ADD made it.
func (p Plugin) Check(ctx context.Context, c call) error {
	l, answer, err := p.link(ctx, c)
	if err != nil {
		return err
	}
	sw, err := p.open(ctx, c)
	if err != nil {
		return err
	}
	defer sw.Close()

	seen, err := sw.Observe(ctx, l.Name)
	switch {
	case err != nil:
		return err
	case !seen.There:
		return fmt.Errorf("bridge %s has no port %s for pod %s/%s", c.config.Bridge, l.Name, c.pod.Namespace,
			c.pod.Name)
	case seen.Problem != "":
		return fmt.Errorf("port %s: Open vSwitch cannot open the interface: %s", l.Name, seen.Problem)
	case seen.UID != answer.UID:
		return fmt.Errorf("port %s is for the pod with the UID %s and not %s", l.Name, seen.UID, answer.UID)
	case !seen.Installed:
		return fmt.Errorf("port %s: OVN has no flows for it", l.Name)
	}
	return p.Links.Check(ctx, l)
}

// GC removes the ports of sandboxes that the runtime does not know any more.
func (p Plugin) GC(ctx context.Context, c call) error {
	keep := map[string]bool{}
	for _, a := range c.config.ValidAttachments {
		keep[ovnet.PodLink(a.ContainerID, a.IfName)] = true
	}
	sw, err := p.open(ctx, c)
	if err != nil {
		return err
	}
	defer sw.Close()
	ports, err := sw.Sandboxes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for name, container := range ports {
		if keep[name] {
			continue
		}
		errs = append(errs, sw.DeletePort(ctx, name), p.Links.Delete(ctx, Link{Name: name, Container: container}))
	}
	return errors.Join(errs...)
}

// Status returns an error if ADD could not work.
func (p Plugin) Status(ctx context.Context, c call) error {
	sw, err := p.open(ctx, c)
	if err != nil {
		return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
	}
	defer sw.Close()
	if _, err := sw.Datapath(ctx, c.config.Bridge); err != nil {
		return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
	}
	return nil
}
