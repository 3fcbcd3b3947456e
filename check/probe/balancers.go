package probe

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/hns"
)

// Ports of the load balancers. They are in the range of Kubernetes' node ports, because the probed host serves none.
const (
	firstPort  = 31901
	secondPort = 31902
	thirdPort  = 31903
	fourthPort = 31904
)

// balancer is a load balancer with one endpoint.
type balancer struct {
	id       string
	endpoint string
	vip      netip.Addr // zero: every address of the node
	port     int
	flags    hns.PortFlags
	dsr      bool
}

// document is the load balancer as HNS takes it. Without an address it serves a port of the node.
func (b balancer) document() document {
	doc := document{"HostComputeEndpoints": []any{b.endpoint}, "SchemaVersion": v2, "PortMappings": []any{document{
		"Protocol": hns.TCP, "InternalPort": b.port, "ExternalPort": b.port, "Flags": b.flags}}}
	if b.id != "" {
		doc["ID"] = b.id
	}
	if b.vip.IsValid() {
		doc["FrontendVIPs"] = []any{b.vip.String()}
	}
	if b.dsr {
		doc["Flags"] = 1 // hcsshim's LoadBalancerFlagsDSR
	}
	return doc
}

// balance makes a load balancer and records the answer. finish removes the load balancer.
func (p *hnsProbe) balance(ctx context.Context, line string, b balancer) (id string, err error) {
	err = p.try(line, func() error {
		doc, err := p.create(ctx, "LoadBalancer", "", b.document())
		if err != nil {
			return err
		}
		id = doc.id()
		return nil
	})
	if err == nil {
		p.made(line+" "+id, func(ctx context.Context) error { return p.hns.Delete(ctx, "LoadBalancer", id) })
	}
	return id, err
}

// makeFar makes a remote endpoint, which suffices as the backend of load balancers.
func (p *hnsProbe) makeFar(ctx context.Context) bool {
	return p.try("endpoint.create.remote", func() error {
		doc, err := p.create(ctx, "Endpoint", p.network,
			document{"Name": farAddr.String(), "HostComputeNetwork": p.network, "SchemaVersion": v2,
				"Flags": 1, "MacAddress": "02-11-0a-fe-4e-09",
				"IpConfigurations": []any{document{"IpAddress": farAddr.String(), "PrefixLength": 24}}})
		if err != nil {
			return err
		}
		p.far = doc.id()
		p.made("remote endpoint", func(ctx context.Context) error { return p.hns.Delete(ctx, "Endpoint", p.far) })
		return nil
	}) == nil
}

// givenID is an id that the probe chooses, as the service proxy does.
const givenID = "706f7274-6570-8001-8001-00000000c4ec"

// balancers asks which load balancers can exist beside each other, and whether they keep given ids.
func (p *hnsProbe) balancers(ctx context.Context) {
	id, err := p.balance(ctx, "balancer.create", balancer{id: givenID, endpoint: p.far, vip: firstVIP, port: firstPort})
	if err != nil {
		return
	}
	kept := "replaced"
	if hns.NormalID(id) == givenID {
		kept = "kept"
	}
	p.value("balancer.id", kept)
	_, _ = p.balance(ctx, "balancer.second", balancer{endpoint: p.far, vip: secondVIP, port: firstPort})
	if p.opts.Leave {
		return
	}
	_, _ = p.balance(ctx, "balancer.same-frontend", balancer{endpoint: p.far, vip: firstVIP, port: firstPort})
	p.listing(ctx)
	p.modify(ctx, id)

	if p.uplink.IsValid() {
		nodePort := balancer{endpoint: p.far, flags: hns.PortLocalRouted | hns.PortVIPExternal}
		nodeIP := balancer{endpoint: p.far, vip: p.uplink, flags: hns.PortLocalRouted}
		p.pair(ctx, "balancer.nodeport-then-nodeip", secondPort, nodePort, nodeIP)
		p.pair(ctx, "balancer.nodeip-then-nodeport", thirdPort, nodeIP, nodePort)
	}
	p.listener(ctx)
}

// pair records the answer to the second of two load balancers on one port.
func (p *hnsProbe) pair(ctx context.Context, line string, port int, first, second balancer) {
	first.port, second.port = port, port
	if _, err := p.balance(ctx, line+".first", first); err == nil {
		_, _ = p.balance(ctx, line, second)
	}
}

// listener asks for a node port on which this program listens.
func (p *hnsProbe) listener(ctx context.Context) {
	l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", fourthPort))
	if err != nil {
		return
	}
	defer l.Close()
	_, _ = p.balance(ctx, "balancer.listener",
		balancer{endpoint: p.far, port: fourthPort, flags: hns.PortLocalRouted | hns.PortVIPExternal})
}

// listing records the fields of a load balancer in the listing of the first interface.
func (p *hnsProbe) listing(ctx context.Context) {
	_, _ = p.ask("policylists.fields", func() (string, error) {
		var said struct{ Output []document }
		if err := p.first(ctx, "GET", "/policylists/", "", &said); err != nil {
			return "", err
		}
		var fields []string
		for _, doc := range said.Output {
			for name := range doc {
				fields = append(fields, name)
			}
			for _, policy := range doc.docs("Policies") {
				for name := range policy {
					fields = append(fields, "Policies."+name)
				}
			}
		}
		slices.Sort(fields)
		return strings.Join(slices.Compact(fields), ", "), nil
	})
}

// modify asks HNS to change the port of a load balancer, and records whether it changed.
func (p *hnsProbe) modify(ctx context.Context, id string) {
	_, _ = p.ask("balancer.modify", func() (string, error) {
		settings := balancer{endpoint: p.far, vip: firstVIP, port: secondPort}.document()
		if err := p.hns.Modify(ctx, "LoadBalancer", id, settings.String()); err != nil {
			return "", err
		}
		doc, err := p.query(ctx, "LoadBalancer", id)
		for _, port := range doc.docs("PortMappings") {
			if n, ok := port["ExternalPort"].(float64); ok && int(n) == secondPort {
				return "changed", err
			}
		}
		return "unchanged", err
	})
}

// reach records whether this host reaches load balancers. Their only backend is a listener of this program on the
// address of the host's endpoint.
func (p *hnsProbe) reach(ctx context.Context) {
	// What is left is for the run after a reboot; a listener would be gone by then.
	if p.opts.Leave {
		return
	}
	l, err := net.Listen("tcp4", netip.AddrPortFrom(hostAddr, firstPort).String())
	if err != nil {
		p.value("reach.listen", err.Error())
		return
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()

	// Each kind is tried alone: two load balancers could not share the frontend.
	for _, try := range []struct {
		line string
		balancer
	}{
		{"reach.plain", balancer{}}, {"reach.dsr", balancer{dsr: true}},
		{"reach.local-routed", balancer{flags: hns.PortLocalRouted}},
	} {
		try.endpoint = p.host
		try.vip = firstVIP
		try.port = firstPort
		doc, err := p.create(ctx, "LoadBalancer", "", try.document())
		if err != nil {
			p.value(try.line, code(err))
			continue
		}
		id := doc.id()
		remove := p.made(try.line, func(ctx context.Context) error { return p.hns.Delete(ctx, "LoadBalancer", id) })
		p.value(try.line, yesNo(reaches(ctx, netip.AddrPortFrom(firstVIP, firstPort))))
		_ = remove(ctx)
	}
}

// reaches reports whether a connection can be made. HNS may take a moment to program a load balancer.
func reaches(ctx context.Context, to netip.AddrPort) bool {
	d := net.Dialer{Timeout: 2 * time.Second}
	for range 2 {
		if c, err := d.DialContext(ctx, "tcp4", to.String()); err == nil {
			_ = c.Close()
			return true
		}
	}
	return false
}
