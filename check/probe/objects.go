package probe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/hns"
)

// makeNetwork makes a network as routes make it, and looks at what comes of it.
func (p *hnsProbe) makeNetwork(ctx context.Context) bool {
	settings := document{"Name": networkName, "Type": hns.L2Bridge, "SchemaVersion": v2,
		"Ipams": []any{document{"Type": "Static",
			"Subnets": []any{document{"IpAddressPrefix": podRange.String(),
				"Routes": []any{document{"NextHop": podGW.String(), "DestinationPrefix": "0.0.0.0/0"}}}}}}}
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
			p.made("namespace HostDefault",
				func(ctx context.Context) error { return p.hns.Delete(ctx, "Namespace", p.namespace) })
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
		remove := p.made("endpoint with a long prefix",
			func(ctx context.Context) error { return p.hns.Delete(ctx, "Endpoint", doc.id()) })
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
		{"filter.as-listed", p.host}, {"filter.lower", plain}, {"filter.upper", strings.ToUpper(plain)},
		{"filter.braces", "{" + plain + "}"},
	} {
		_, _ = p.ask(f.line, func() (string, error) {
			ids, err := p.ids(ctx, "Endpoint", document{"ID": f.id})
			return fmt.Sprint(len(ids)), err
		})
	}
	for _, f := range []struct{ line, id string }{
		{"filter.network.as-listed", p.network}, {"filter.network.lower", hns.NormalID(p.network)},
		{"filter.network.upper", strings.ToUpper(hns.NormalID(p.network))},
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
		return yesNo(slices.ContainsFunc(ids,
			func(other string) bool { return hns.NormalID(other) == hns.NormalID(id) })), err
	})
}
