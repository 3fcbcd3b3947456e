package probe

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/hns"
)

// HNS is the Host Networking Service with documents as text. hns/hcn.Raw implements it. Errors with a code are
// *hns.Error.
type HNS interface {
	Enumerate(ctx context.Context, kind, query string) (string, error)
	Query(ctx context.Context, kind, id string) (string, error)
	Create(ctx context.Context, kind, network, settings string) (string, error)
	Modify(ctx context.Context, kind, id, settings string) error
	Delete(ctx context.Context, kind, id string) error
	First(ctx context.Context, method, path, body string) (string, error)
	Watch(ctx context.Context, heard func(kind uint32, data string)) (stop func(), err error)
}

// Machine is what the probe of HNS has to see of the host around it.
type Machine interface {
	Adapters() ([]Adapter, error)
	// RestartHNS stops and starts the service.
	RestartHNS(ctx context.Context) error
}

// Adapter is a network adapter of the host.
type Adapter struct {
	Name       string
	Addrs      []netip.Addr
	Defaults   int    // default routes of IPv4 through it
	Forwarding string // on if IPv4 packets for others are passed on, off, or unknown
}

// What the probe makes. The ranges are of no use to anybody else: nobody routes them to this host.
const (
	networkName = "porthole-check"
	hostName    = "porthole-check-host"
)

var (
	podRange  = netip.MustParsePrefix("10.254.77.0/24")
	podGW     = netip.MustParseAddr("10.254.77.1")
	hostAddr  = netip.MustParseAddr("10.254.77.2")
	farAddr   = netip.MustParseAddr("10.254.78.9") // of a remote endpoint
	firstVIP  = netip.MustParseAddr("10.254.79.1")
	secondVIP = netip.MustParseAddr("10.254.79.2")
	thirdVIP  = netip.MustParseAddr("10.254.79.3")
)

// hnsProbe is one run.
type hnsProbe struct {
	*recorder
	service
	machine Machine
	opts    Options

	heard   chan notification
	earlier int // how many were heard before HNS was restarted
	// What was made.
	network, host, far string
	namespace          string
	uplink             netip.Addr // the node's own address
}

// notification is a call of a registered callback: its kind and its data, as they came.
type notification struct {
	kind uint32
	data string
}

// ProbeHNS asks HNS. Without o.Changes it only reads. It refuses to change a host that has a network for pods: making
// another one would cut its pods off. An error means that nothing could be asked; the report holds what was.
func ProbeHNS(ctx context.Context, from HNS, machine Machine, o Options) (check.Report, error) {
	p := &hnsProbe{recorder: newRecorder("hns", o), service: service{from}, machine: machine, opts: o,
		heard: make(chan notification, 256)}
	if err := p.read(ctx); err != nil {
		return p.report, err
	}
	left, err := p.leftBehind(ctx)
	if err != nil || !o.Changes {
		return p.report, err
	}
	if left {
		p.removeLeft(ctx)
	}

	if err := p.refuse(ctx); err != nil {
		return p.finish(ctx), err
	}
	p.guarded("change", func() { p.change(ctx) })
	if o.Leave {
		return p.report, nil
	}
	return p.finish(ctx), ctx.Err()
}

// read asks what changes nothing.
func (p *hnsProbe) read(ctx context.Context) error {
	// The version is asked first: without it HNS does not answer at all.
	_, err := p.ask("hns.version", func() (string, error) {
		var said struct {
			Success bool
			Error   string
			Output  hns.Version
		}
		err := p.first(ctx, "GET", "/globals/version", "", &said)
		return said.Output.String(), err
	})
	if err != nil {
		return fmt.Errorf(
			"HNS cannot be asked (is the Windows feature Containers installed, and the service hns running?): %w", err)
	}

	_, _ = p.ask("namespaces.types", func() (string, error) {
		var types []string
		err := p.each(ctx, "Namespace", func(_ string, doc document) { types = append(types, doc.text("Type")) })
		slices.Sort(types)
		return cmp.Or(strings.Join(types, ", "), "none"), err
	})
	_, _ = p.ask("networks", func() (string, error) {
		var found []string
		err := p.each(ctx, "Network",
			func(_ string, doc document) { found = append(found, doc.text("Name")+" "+doc.text("Type")) })
		return cmp.Or(strings.Join(found, ", "), "none"), err
	})
	// No object has this id; the answer's code is what is asked for.
	_ = p.try("network.unknown", func() error {
		_, err := p.hns.Query(ctx, "Network", "0badf00d-0bad-0bad-0bad-0badf00d0bad")
		return err
	})
	p.adapters("adapters")
	return nil
}

// adapters records name, addresses, default routes and forwarding of all adapters, and remembers the node's own
// address.
func (p *hnsProbe) adapters(line string) {
	_, _ = p.ask(line, func() (string, error) {
		list, err := p.machine.Adapters()
		var parts []string
		for _, a := range list {
			parts = append(parts, fmt.Sprintf("%s %v default-routes=%d forwarding=%s", a.Name, a.Addrs, a.Defaults,
				a.Forwarding))
			if a.Defaults > 0 && !p.uplink.IsValid() {
				p.uplink = firstIPv4(a.Addrs)
			}
		}
		return strings.Join(parts, "; "), err
	})
}

// leftBehind records what a run with Leave left, and reports whether there is something. It counts what it finds as
// the probe's own.
func (p *hnsProbe) leftBehind(ctx context.Context) (bool, error) {
	// The network is found by its name, because a reboot may give it another id.
	err := p.each(ctx, "Network", func(id string, doc document) {
		if doc.text("Name") == networkName {
			p.network = id
		}
	})
	if err != nil || p.network == "" {
		return false, err
	}

	state := "gone"
	_ = p.each(ctx, "Endpoint", func(id string, doc document) {
		if doc.text("Name") == hostName {
			p.host, state = id, attachment(doc)
		}
	})
	p.value("left.endpoint", state)
	p.value("left.adapter", yesNo(p.hasAdapter()))
	balancers := 0
	_ = p.each(ctx, "LoadBalancer", func(_ string, doc document) {
		if slices.Contains(doc.texts("FrontendVIPs"), firstVIP.String()) ||
			slices.Contains(doc.texts("FrontendVIPs"), secondVIP.String()) {
			balancers++
		}
	})
	p.value("left.balancers", fmt.Sprint(balancers))
	return true, nil
}

// removeLeft removes what leftBehind found.
func (p *hnsProbe) removeLeft(ctx context.Context) {
	var endpoints []string
	_ = p.each(ctx, "Endpoint", func(id string, doc document) {
		if hns.NormalID(doc.text("HostComputeNetwork")) == hns.NormalID(p.network) {
			endpoints = append(endpoints, hns.NormalID(id))
		}
	})
	_ = p.each(ctx, "LoadBalancer", func(id string, doc document) {
		if slices.ContainsFunc(doc.texts("HostComputeEndpoints"),
			func(e string) bool { return slices.Contains(endpoints, hns.NormalID(e)) }) {
			_ = p.try("left.balancer.delete", func() error { return p.hns.Delete(ctx, "LoadBalancer", id) })
		}
	})
	for _, id := range endpoints {
		_ = p.try("left.endpoint.delete", func() error { return p.hns.Delete(ctx, "Endpoint", id) })
	}
	_ = p.try("left.delete", func() error { return p.hns.Delete(ctx, "Network", p.network) })
	p.network, p.host = "", ""
}

// refuse is an error if the host serves pods.
func (p *hnsProbe) refuse(ctx context.Context) error {
	var found []string
	err := p.each(ctx, "Network", func(_ string, doc document) {
		if slices.Contains([]string{hns.L2Bridge, hns.L2Tunnel, hns.Overlay}, doc.text("Type")) {
			found = append(found, fmt.Sprintf("%s (%s)", doc.text("Name"), doc.text("Type")))
		}
	})
	if err != nil {
		return fmt.Errorf("listing networks before a change: %w", err)
	}
	if len(found) > 0 {
		return fmt.Errorf(
			"this host has a network for pods, %s: another one beside it could cut them off; nothing was changed "+
				"(ask a host that is not in use, or ask without changes)", strings.Join(found, ", "))
	}
	return nil
}

// change asks what needs objects of our own, in the order in which node programs make them.
func (p *hnsProbe) change(ctx context.Context) {
	stop, err := p.hns.Watch(ctx, func(kind uint32, data string) {
		select {
		case p.heard <- notification{kind, data}:
		default: // enough were heard
		}
	})
	if err == nil {
		defer stop()
	}

	if !p.makeNetwork(ctx) {
		return
	}
	p.longPrefix(ctx)
	if p.findNamespace(ctx) && p.makeHost(ctx) {
		p.filters(ctx)
		if p.opts.RestartHNS {
			p.restart(ctx)
		}
		p.reach(ctx)
	}
	if p.makeFar(ctx) {
		p.balancers(ctx)
	}

	if p.opts.Leave {
		return
	}
	p.deleteNetwork(ctx)
	p.notifications(err)
}

// notifications records the kinds that were heard, and the first data of each.
func (p *hnsProbe) notifications(err error) {
	if err != nil {
		for _, line := range []string{"notify.kinds", "notify.data", "restart.notifications"} {
			p.add(check.Line{Name: line, Value: code(err), Error: err.Error()})
		}
		return
	}

	// Of the notifications since the restart began only the number counts.
	if p.opts.RestartHNS {
		p.value("restart.notifications", fmt.Sprint(len(p.heard)-p.earlier))
	}
	counts, forms := map[uint32]int{}, []string{}
	for {
		select {
		case n := <-p.heard:
			if counts[n.kind]++; counts[n.kind] == 1 && n.data != "" {
				forms = append(forms, fmt.Sprintf("0x%x %s", n.kind, n.data))
			}
			continue
		default:
		}
		break
	}

	var kinds []string
	for kind, n := range counts {
		kinds = append(kinds, fmt.Sprintf("0x%x×%d", kind, n))
	}
	slices.Sort(kinds)
	p.value("notify.kinds", cmp.Or(strings.Join(kinds, ", "), "none"))
	p.value("notify.data", cmp.Or(strings.Join(forms, "; "), "none"))
}

// adapterOf returns the adapter that has an address; nil if none has, or the adapters cannot be listed.
func (p *hnsProbe) adapterOf(addr netip.Addr) *Adapter {
	list, err := p.machine.Adapters()
	if err != nil {
		return nil
	}
	for i := range list {
		if slices.Contains(list[i].Addrs, addr) {
			return &list[i]
		}
	}
	return nil
}

func (p *hnsProbe) hasAdapter() bool { return p.adapterOf(hostAddr) != nil }

// defaults counts the default routes of the host.
func (p *hnsProbe) defaults() int {
	list, _ := p.machine.Adapters()
	n := 0
	for _, a := range list {
		n += a.Defaults
	}
	return n
}
