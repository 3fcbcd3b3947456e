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
	profile, err := profileOf(o)
	if err != nil {
		return err
	}
	table, err := latency.Of(o.Latency)
	if err != nil {
		return err
	}
	takeover := ipstack.NewTakeover(ipstack.TakeoverOptions{Plane: o.Plane,
		File: filepath.Join(o.HostDir, "hnsd", "takeover.json"), Flap: o.Flap, LosesRoutes: profile.LosesRoutes,
		Ended: ctx.Done()})
	if err := takeover.Finish(); err != nil {
		return err
	}

	host := &hnsd.Host{Profile: profile, NewID: newID, Listens: listensIn(o.Netns)}
	var listener net.Listener
	err = platform.InNetns(o.Netns, func() (err error) {
		describeUplink(host, o.Uplink)
		listener, err = net.Listen("tcp4", o.Listen)
		return err
	})
	if err != nil {
		return fmt.Errorf("serving HNS: %w", err)
	}
	defer listener.Close()
	defer startMarking(ctx, o.Netns)()
	s, err := newService(options{host: host, plane: o.Plane, journal: objects.File(o.HostDir),
		lost: filepath.Join(o.HostDir, "hnsd", "unplumbed.json"), uplink: o.Uplink, takeover: takeover})
	if err != nil {
		return err
	}

	defer takeover.Wait()
	s.latency.Set(table)
	if err := prepare(ctx, s, o); err != nil {
		return err
	}
	server, err := s.serveControl(ctx, o.HostDir)
	if err != nil {
		return err
	}
	defer server.Close()

	klog.FromContext(ctx).Info("HNS is running", "version", profile.Version.String(), "address", o.Listen)
	go s.keepUp(ctx)
	return s.accept(ctx, listener)
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

// keepUp repeats every two seconds what the data plane could not do.
func (s *Service) keepUp(ctx context.Context) {
	log := klog.FromContext(ctx)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.restore(ctx); err != nil {
				log.V(2).Info("data plane still incomplete", "cause", err.Error())
			}
		}
	}
}
