package path

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// place is one end of a way.
type place struct {
	text string
	addr netip.Addr
	pod  *Pod   // nil unless it is a pod with an address of its own
	node string // the machine that has it; empty: none that is known
	// other is a node's address of the other family; zero: it has none.
	other netip.Addr
}

// target is a place, or a service, with a port.
type target struct {
	place
	port     uint16 // 0: any
	protocol string
	service  *Service // nil unless the address and port are those of a service
}

// source finds the sender.
func (f *Facts) source(text string) (place, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return f.place(text, addr), nil
	}
	if p, ok := f.named(text); ok {
		return p, nil
	}
	return place{}, fmt.Errorf("%q is no pod, no node and no address%s", text, f.near(text, false))
}

// target finds the destination.
func (f *Facts) target(text, protocol string) (target, error) {
	protocol = strings.ToLower(protocol)
	if protocol == "" {
		protocol = "tcp"
	}
	host, port, err := splitPort(text)
	if err != nil {
		return target{}, err
	}

	t := target{port: port, protocol: protocol}
	if addr, err := netip.ParseAddr(host); err == nil {
		t.place = f.place(text, addr)
	} else if p, ok := f.named(host); ok {
		t.place, t.text = p, text
	} else {
		return f.serviceTarget(text, host, t)
	}

	t.service = f.serviceAt(t.addr, port, protocol)
	if t.service == nil && t.node != "" && t.pod == nil && port != 0 {
		t.service = f.nodePort(port, protocol)
	}
	return t, nil
}

// serviceTarget finds a service by name: NAMESPACE/NAME, NAME.NAMESPACE and longer DNS names, or NAME in the namespace
// default.
func (f *Facts) serviceTarget(text, host string, t target) (target, error) {
	name := host
	if parts := strings.Split(host, "."); len(parts) > 1 && !strings.Contains(host, "/") {
		name = parts[1] + "/" + parts[0]
	} else if !strings.Contains(host, "/") {
		name = "default/" + host
	}

	var ports []string
	var found []*Service
	for i := range f.Cluster.Services {
		s := &f.Cluster.Services[i]
		if s.Name == name && s.ExternalName != "" {
			return t,
				fmt.Errorf(
					"service %s is another name of %s, which DNS resolves outside of the cluster: give its address",
					name, s.ExternalName)
		}
		if s.Name != name || s.External || len(s.Addresses) == 0 && !s.Headless { // a name is that of the cluster IP
			continue
		}
		ports = append(ports, fmt.Sprintf("%d/%s", s.Port, s.Protocol))
		if (s.Protocol == t.protocol || s.Protocol == "") && (t.port == 0 || s.Port == t.port) {
			found = append(found, s)
		}
	}
	switch {
	case len(ports) == 0:
		return t, fmt.Errorf("%q is no address, and no pod, node or service with an address has this name%s", host,
			f.near(host, true))
	case len(found) != 1:
		return t, fmt.Errorf("service %s has the ports %s: name one with :PORT and --protocol", name,
			strings.Join(ports, ", "))
	}
	t.service = found[0]
	if found[0].Headless {
		t.place = place{text: text}
		return t, nil
	}
	t.port = found[0].Port
	t.place = f.place(text, found[0].Addresses[0])
	return t, nil
}

// like returns the place's address of the same family as another.
func (p place) like(other netip.Addr) netip.Addr {
	switch {
	case p.pod != nil:
		return of(other, p.addr, append([]netip.Addr{p.pod.Address}, p.pod.Others...))
	case p.other.IsValid():
		return of(other, p.addr, []netip.Addr{p.other})
	}
	return p.addr
}

// place describes an address.
func (f *Facts) place(text string, addr netip.Addr) place {
	p := place{text: text, addr: addr.Unmap()}
	if p.pod = f.podAt(p.addr); p.pod != nil {
		p.node = p.pod.Node
		return p
	}
	p.node, _ = f.owner(p.addr)
	return p
}

// named finds a node or pod by name. A pod of the host's network is its node.
func (f *Facts) named(name string) (place, bool) {
	if n := f.clusterNode(name); n != nil {
		p := place{text: name, addr: n.Address, node: name}
		if len(n.Others) > 0 {
			p.other = n.Others[0]
		}
		return p, true
	}
	full := name
	if !strings.Contains(name, "/") {
		full = "default/" + name
	}
	for i := range f.Cluster.Pods {
		p := &f.Cluster.Pods[i]
		if p.Name != full {
			continue
		}
		out := place{text: full, addr: p.Address, node: p.Node, pod: p}
		if p.HostNetwork {
			out.pod = nil
		}
		return out, true
	}
	return place{}, false
}

func (f *Facts) serviceAt(addr netip.Addr, port uint16, protocol string) *Service {
	for i := range f.Cluster.Services {
		s := &f.Cluster.Services[i]
		if s.Port == port && s.Protocol == protocol && slices.Contains(s.Addresses, addr) {
			return s
		}
	}
	return nil
}

func (f *Facts) nodePort(port uint16, protocol string) *Service {
	for i := range f.Cluster.Services {
		if s := &f.Cluster.Services[i]; s.NodePort == port && s.Protocol == protocol {
			return s
		}
	}
	return nil
}

// splitPort splits HOST:PORT. An IPv6 address has its port after brackets.
func splitPort(text string) (host string, port uint16, err error) {
	if _, err := netip.ParseAddr(text); err == nil {
		return text, 0, nil
	}
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, 0, nil
	}
	n, err := strconv.ParseUint(text[i+1:], 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q: %q is no port", text, text[i+1:])
	}
	return strings.Trim(text[:i], "[]"), uint16(n), nil
}
