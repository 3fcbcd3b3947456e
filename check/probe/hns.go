package probe

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/hns"
)

// HNS is the Host Networking Service with documents as text. hns/hcn.Raw implements it. Errors with a code are *hns.Error.
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

type notification struct {
	kind uint32
	data string
}

// ProbeHNS asks HNS. Without o.Changes it only reads. It refuses to change a host that has a network for pods: making another one
// would cut its pods off. An error means that nothing could be asked; the report holds what was.
func ProbeHNS(ctx context.Context, from HNS, machine Machine, o Options) (check.Report, error) {
	p := &hnsProbe{recorder: newRecorder("hns", o), service: service{from}, machine: machine, opts: o, heard: make(chan notification, 256)}
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
		return fmt.Errorf("HNS cannot be asked (is the Windows feature Containers installed, and the service hns running?): %w", err)
	}

	_, _ = p.ask("namespaces.types", func() (string, error) {
		var types []string
		err := p.each(ctx, "Namespace", func(_ string, doc document) { types = append(types, doc.text("Type")) })
		slices.Sort(types)
		return cmp.Or(strings.Join(types, ", "), "none"), err
	})
	_, _ = p.ask("networks", func() (string, error) {
		var found []string
		err := p.each(ctx, "Network", func(_ string, doc document) { found = append(found, doc.text("Name")+" "+doc.text("Type")) })
		return cmp.Or(strings.Join(found, ", "), "none"), err
	})
	_ = p.try("network.unknown", func() error {
		_, err := p.hns.Query(ctx, "Network", "0badf00d-0bad-0bad-0bad-0badf00d0bad")
		return err
	})
	p.adapters("adapters")
	return nil
}

// adapters records name, addresses, default routes and forwarding of all adapters, and remembers the node's own address.
func (p *hnsProbe) adapters(line string) {
	_, _ = p.ask(line, func() (string, error) {
		list, err := p.machine.Adapters()
		var parts []string
		for _, a := range list {
			parts = append(parts, fmt.Sprintf("%s %v default-routes=%d forwarding=%s", a.Name, a.Addrs, a.Defaults, a.Forwarding))
			if a.Defaults > 0 && !p.uplink.IsValid() {
				p.uplink = firstIPv4(a.Addrs)
			}
		}
		return strings.Join(parts, "; "), err
	})
}

// leftBehind records what a run with Leave left, and reports whether there is something. It counts what it finds as the probe's own.
func (p *hnsProbe) leftBehind(ctx context.Context) (bool, error) {
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
		if slices.Contains(doc.texts("FrontendVIPs"), firstVIP.String()) || slices.Contains(doc.texts("FrontendVIPs"), secondVIP.String()) {
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
		if slices.ContainsFunc(doc.texts("HostComputeEndpoints"), func(e string) bool { return slices.Contains(endpoints, hns.NormalID(e)) }) {
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
		return fmt.Errorf("this host has a network for pods, %s: another one beside it could cut them off; nothing was changed "+
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

// makeNetwork makes a network as routes make it, and looks at what comes of it.
func (p *hnsProbe) makeNetwork(ctx context.Context) bool {
	settings := document{"Name": networkName, "Type": hns.L2Bridge, "SchemaVersion": v2, "Ipams": []any{document{"Type": "Static",
		"Subnets": []any{document{"IpAddressPrefix": podRange.String(), "Routes": []any{document{"NextHop": podGW.String(), "DestinationPrefix": "0.0.0.0/0"}}}}}}}
	var doc document
	_, err := p.ask("network.create", func() (_ string, err error) {
		doc, err = p.create(ctx, "Network", "", settings)
		return "ok", err
	})
	if err != nil {
		return false
	}

	p.network = doc.id()
	p.made("network "+networkName, func(ctx context.Context) error { return p.hns.Delete(ctx, "Network", p.network) })
	if p.uplink.IsValid() {
		p.seconds(ctx, "network.address.seconds", time.Minute, func() bool { return p.adapterOf(p.uplink) != nil })
	}
	// Of a bridged network only the first interface shows it (flannel, hostgw_windows.go).
	p.seconds(ctx, "network.management.seconds", time.Minute, func() bool {
		var said struct{ Output struct{ ManagementIP string } }
		return p.first(ctx, "GET", "/networks/"+p.network, "", &said) == nil && said.Output.ManagementIP != ""
	})

	if again, err := p.query(ctx, "Network", p.network); err == nil {
		doc = again
	}
	prefix, gateway := doc.subnet()
	p.value("network.prefix", sameOr(prefix == podRange, prefix.String()))
	p.value("network.gateway", sameOr(gateway == podGW, gateway.String()))
	if a := p.adapterOf(p.uplink); a != nil {
		p.value("forwarding.uplink", a.Forwarding)
	}
	return true
}

// findNamespace takes the host's own namespace, or makes one.
func (p *hnsProbe) findNamespace(ctx context.Context) bool {
	for _, kind := range []string{"HostDefault", "Host"} {
		_ = p.each(ctx, "Namespace", func(id string, doc document) {
			if p.namespace == "" && doc.text("Type") == kind {
				p.namespace = id
			}
		})
	}
	if p.namespace != "" {
		p.value("namespace.create", "there is one")
		return true
	}

	return p.try("namespace.create", func() error {
		doc, err := p.create(ctx, "Namespace", "", document{"Type": "HostDefault", "SchemaVersion": v2})
		if err == nil {
			p.namespace = doc.id()
			p.made("namespace HostDefault", func(ctx context.Context) error { return p.hns.Delete(ctx, "Namespace", p.namespace) })
		}
		return err
	}) == nil
}

// makeHost makes the host's endpoint in the two ways that programs know, and attaches it.
func (p *hnsProbe) makeHost(ctx context.Context) bool {
	before := p.defaults()
	if !p.attachNew(ctx, "", nil) {
		return false
	}
	p.value("attach.default-routes", fmt.Sprint(p.defaults()-before))
	if a := p.adapterOf(hostAddr); a != nil {
		p.value("forwarding.endpoint", a.Forwarding)
	}

	_ = p.try("attach.again.hcn", func() error { return p.attach(ctx, "Add") })
	_ = p.try("attach.again.v1", func() error {
		return p.first(ctx, "POST", "/endpoints/"+p.host+"/attach", `{"SystemType":"Host","CompartmentId":1}`, nil)
	})
	_ = p.try("detach", func() error { return p.attach(ctx, "Remove") })
	if p.try("endpoint.delete", func() error { return p.hns.Delete(ctx, "Endpoint", p.host) }) != nil {
		return false
	}

	before = p.defaults()
	if !p.attachNew(ctx, ".nohop", []any{document{"NextHop": "0.0.0.0", "DestinationPrefix": "0.0.0.0/0"}}) {
		return false
	}
	p.value("attach.default-routes.nohop", fmt.Sprint(p.defaults()-before))
	return true
}

// attachNew makes the host's endpoint and attaches it. Suffix tells the lines of the two ways apart.
func (p *hnsProbe) attachNew(ctx context.Context, suffix string, routes []any) bool {
	settings := document{"Name": hostName, "HostComputeNetwork": p.network, "SchemaVersion": v2,
		"IpConfigurations": []any{document{"IpAddress": hostAddr.String(), "PrefixLength": podRange.Bits()}}}
	if routes != nil {
		settings["Routes"] = routes
	}
	var doc document
	err := p.try("endpoint.create"+suffix, func() (err error) {
		doc, err = p.create(ctx, "Endpoint", p.network, settings)
		return err
	})
	if err != nil {
		return false
	}

	p.host = doc.id()
	id := p.host
	p.made("endpoint "+hostName, func(ctx context.Context) error { return p.hns.Delete(ctx, "Endpoint", id) })
	p.value("endpoint.routes"+suffix, cmp.Or(doc.json("Routes"), "none"))
	if p.try("attach.first"+suffix, func() error { return p.attach(ctx, "Add") }) != nil {
		return false
	}
	p.seconds(ctx, "attach.adapter.seconds"+suffix, 30*time.Second, p.hasAdapter)
	return true
}

// longPrefix asks for an endpoint that cannot be. One that is made all the same is removed at once.
func (p *hnsProbe) longPrefix(ctx context.Context) {
	settings := document{"Name": hostName, "HostComputeNetwork": p.network, "SchemaVersion": v2,
		"IpConfigurations": []any{document{"IpAddress": hostAddr.String(), "PrefixLength": 64}}}
	_ = p.try("endpoint.long-prefix", func() error {
		doc, err := p.create(ctx, "Endpoint", p.network, settings)
		if err != nil {
			return err
		}
		remove := p.made("endpoint with a long prefix", func(ctx context.Context) error { return p.hns.Delete(ctx, "Endpoint", doc.id()) })
		return remove(ctx)
	})
}

// attach adds the host's endpoint to the host's namespace, or removes it.
func (p *hnsProbe) attach(ctx context.Context, request string) error {
	settings := document{"ResourceType": "Endpoint", "RequestType": request, "Settings": document{"EndpointId": p.host}}
	return p.hns.Modify(ctx, "Namespace", p.namespace, settings.String())
}

// filters looks for the host's endpoint by its id in several spellings.
func (p *hnsProbe) filters(ctx context.Context) {
	plain := hns.NormalID(p.host)
	p.value("endpoint.id", spelling(p.host))
	for _, f := range []struct{ line, id string }{
		{"filter.as-listed", p.host}, {"filter.lower", plain}, {"filter.upper", strings.ToUpper(plain)}, {"filter.braces", "{" + plain + "}"},
	} {
		_, _ = p.ask(f.line, func() (string, error) {
			ids, err := p.ids(ctx, "Endpoint", document{"ID": f.id})
			return fmt.Sprint(len(ids)), err
		})
	}
	for _, f := range []struct{ line, id string }{
		{"filter.network.as-listed", p.network}, {"filter.network.lower", hns.NormalID(p.network)}, {"filter.network.upper", strings.ToUpper(hns.NormalID(p.network))},
	} {
		_, _ = p.ask(f.line, func() (string, error) {
			ids, err := p.ids(ctx, "Endpoint", document{"VirtualNetwork": f.id})
			return fmt.Sprint(len(ids)), err
		})
	}
}

// restart looks at what is left of the host's endpoint after the service was stopped and started.
func (p *hnsProbe) restart(ctx context.Context) {
	if p.try("restart", func() error { return p.machine.RestartHNS(ctx) }) != nil {
		return
	}
	p.seconds(ctx, "restart.answers.seconds", time.Minute, func() bool {
		_, err := p.ids(ctx, "Network", nil)
		return err == nil
	})
	p.earlier = len(p.heard)
	_, _ = p.ask("restart.endpoint", func() (string, error) {
		doc, err := p.query(ctx, "Endpoint", p.host)
		return attachment(doc), err
	})
	p.value("restart.adapter", yesNo(p.hasAdapter()))
	_ = p.try("restart.attach", func() error { return p.attach(ctx, "Add") })
	p.seconds(ctx, "restart.adapter.seconds", 30*time.Second, p.hasAdapter)
}

// deleteNetwork deletes the network while a load balancer stands on an endpoint of it.
func (p *hnsProbe) deleteNetwork(ctx context.Context) {
	id, err := p.balance(ctx, "balancer.last", balancer{endpoint: p.far, vip: thirdVIP, port: firstPort})
	if err != nil {
		return
	}
	if p.host != "" {
		_ = p.attach(ctx, "Remove") // a network with an endpoint in use may not be deletable
	}
	if p.try("network.delete", func() error { return p.hns.Delete(ctx, "Network", p.network) }) != nil {
		return
	}
	_, _ = p.ask("network.delete.balancers", func() (string, error) {
		ids, err := p.ids(ctx, "LoadBalancer", nil)
		return yesNo(slices.ContainsFunc(ids, func(other string) bool { return hns.NormalID(other) == hns.NormalID(id) })), err
	})
}

// notifications records the kinds that were heard, and the first data of each.
func (p *hnsProbe) notifications(err error) {
	if err != nil {
		for _, line := range []string{"notify.kinds", "notify.data", "restart.notifications"} {
			p.add(check.Line{Name: line, Value: code(err), Error: err.Error()})
		}
		return
	}

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
