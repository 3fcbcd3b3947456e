package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/ipstack"
	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/hnsd/objects"
	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/platform"
)

// Options of the daemon.
type Options struct {
	HostDir string // the host's folder: state in hnsd/, control socket hnsd.sock; required
	Build   int    // Windows build whose HNS it is; required
	Netns   string // path of the host's network namespace; empty: the caller's own
	Listen  string // address in that namespace for the DLLs; required
	Uplink  string // interface whose addresses are the node's; may be absent
	Plane   DataPlane
	Profile string // name of the HNS to be, over the build's; empty: the build's
	// Firewall drops what comes in to the host itself, but for what rules allow.
	Firewall bool
	DNS      DNSServers
	// Flap is how long a network card has neither link nor addresses when a virtual switch takes it over or gives it
	// back.
	Flap    time.Duration
	Latency string // name of the table of latencies to inject; empty: none
}

// Run serves until ctx ends. Only one daemon can run per host: a second one finds the address in use.
func Run(ctx context.Context, o Options) error {
	plan, err := component.Order((&parts{o: o}).components())
	if err != nil {
		return err
	}
	return plan.Run(ctx)
}

// parts is the daemon. Each field is set by the component of the name beside it.
type parts struct {
	o        Options
	profile  hnsd.Profile      // profile
	latency  latency.Table     // profile
	takeover *ipstack.Takeover // cards
	host     *hnsd.Host        // address
	listener net.Listener      // address
	service  *Service          // service
	control  *http.Server      // control
}

// stopWithin is how long calls that have begun may go on.
const stopWithin = time.Minute

// components are the parts in the order in which they start. Cards that a switch was giving back when HNS ended come
// first: the node may need them for its address.
func (p *parts) components() []component.Component {
	// unmark is set when marking has started.
	unmark := func() {}
	return []component.Component{
		{Name: "profile", Start: func(context.Context) (err error) {
			if p.profile, err = profileOf(p.o); err != nil {
				return err
			}
			p.latency, err = latency.Of(p.o.Latency)
			return err
		}},
		{Name: "cards", Needs: []string{"profile"}, StopWithin: stopWithin, Start: func(ctx context.Context) error {
			p.takeover = ipstack.NewTakeover(ipstack.TakeoverOptions{Plane: p.o.Plane,
				File: filepath.Join(p.o.HostDir, "hnsd", "takeover.json"), Flap: p.o.Flap,
				LosesRoutes: p.profile.LosesRoutes, Ended: ctx.Done()})
			return p.takeover.Finish()
		}, Stop: func(context.Context) { p.takeover.Wait() }},

		// What programs of the host ask.
		{Name: "address", Needs: []string{"profile", "cards"}, Start: p.listen,
			Stop: func(context.Context) { _ = p.listener.Close() }}, // it may be closed
		{Name: "marks", Start: func(ctx context.Context) error {
			unmark = startMarking(ctx, p.o.Netns)
			return nil
		}, Stop: func(context.Context) { unmark() }},
		{Name: "service", Needs: []string{"address", "cards"}, Start: p.makeService},
		{Name: "control", Needs: []string{"service"}, Start: func(ctx context.Context) (err error) {
			p.control, err = p.service.serveControl(ctx, p.o.HostDir)
			return err
		}, Stop: func(context.Context) { _ = p.control.Close() }},
		{Name: "repair", Needs: []string{"service"}, Run: func(ctx context.Context) error {
			p.service.keepUp(ctx)
			return nil
		}},
		{Name: "HNS", Needs: []string{"service", "control"}, StopWithin: stopWithin,
			Run: func(ctx context.Context) error {
				klog.FromContext(ctx).Info("HNS is running", "version", p.profile.Version.String(), "address",
					p.o.Listen)
				return p.service.accept(ctx, p.listener)
			}},
	}
}

// listen opens the address for the host's programs.
// The rules of HNS need the node's address and hardware address, which are those of the uplink in
// the host's namespace.
func (p *parts) listen(context.Context) error {
	p.host = &hnsd.Host{Profile: p.profile, NewID: newID, Listens: listensIn(p.o.Netns)}
	err := platform.InNetns(p.o.Netns, func() (err error) {
		describeUplink(p.host, p.o.Uplink)
		p.listener, err = net.Listen("tcp4", p.o.Listen)
		return err
	})
	if err != nil {
		return fmt.Errorf("serving HNS: %w", err)
	}
	return nil
}

// makeService makes HNS, with what it had when it ended.
func (p *parts) makeService(ctx context.Context) (err error) {
	p.service, err = newService(options{host: p.host, plane: p.o.Plane, journal: objects.File(p.o.HostDir),
		lost: filepath.Join(p.o.HostDir, "hnsd", "unplumbed.json"), uplink: p.o.Uplink, takeover: p.takeover})
	if err != nil {
		return err
	}
	p.service.latency.Set(p.latency)
	return prepare(ctx, p.service, p.o)
}

// profileOf returns the HNS that is asked for: by name, else the one of the build.
func profileOf(o Options) (hnsd.Profile, error) {
	if o.Profile != "" {
		return hnsd.ProfileNamed(o.Profile)
	}
	return hnsd.ProfileOf(o.Build)
}

// prepare makes the host as it was when HNS ended: cards, firewall, and what HNS had in the kernel. What cannot be
// carried there yet is tried again later.
func prepare(ctx context.Context, s *Service, o Options) error {
	s.stack.SetDNS(o.DNS)
	cards, err := s.stack.CardNames()
	if err != nil {
		return err
	}
	s.host.Uplinks, s.host.Adapters = cards, cards

	s.walls.path = filepath.Join(o.HostDir, "hnsd", "firewall.json")
	s.walls.netns = o.Netns
	if o.Firewall {
		if err := s.walls.turn(ctx, true); err != nil {
			return err
		}
	}
	if err := s.restore(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "carrying the state found on disk; will try again")
	}
	return nil
}

// serveControl answers `porthole host hns` on a socket in the host's folder. The caller closes the server.
func (s *Service) serveControl(ctx context.Context, hostDir string) (*http.Server, error) {
	socket := control.Socket(hostDir)
	// A socket of a daemon that was killed is still there.
	os.Remove(socket)
	unix, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serving HNS control: %w", err)
	}
	server := &http.Server{Handler: s.controls(ctx), BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = server.Serve(unix) }() // it ends with the server
	return server, nil
}

// describeUplink fills in what rules need to know of the node. Without the interface it stays unknown.
// Both values stay empty without an IPv4 address; the hardware address is written as Windows does.
func describeUplink(host *hnsd.Host, name string) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return
	}
	host.NodeMAC = strings.ToUpper(strings.ReplaceAll(link.HardwareAddr.String(), ":", "-"))
	addrs, err := link.Addrs()
	if err != nil {
		return
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
			host.NodeAddr = ip.IP.String()
			return
		}
	}
}

// repairPeriod is how often it is tried again what the data plane could not do.
const repairPeriod = 2 * time.Second

// keepUp repeats what the data plane could not do, until ctx ends.
func (s *Service) keepUp(ctx context.Context) {
	loop.Loop{Later: true, Period: repairPeriod, Pass: func(ctx context.Context) error {
		err := s.restore(ctx)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("data plane still incomplete", "cause", err.Error())
		}
		return err
	}}.Run(ctx)
}
