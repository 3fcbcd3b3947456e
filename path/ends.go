package path

import (
	"errors"
	"fmt"
	"net/netip"
)

// Ends are both ends of a packet, as somebody needs them who sends it.
type Ends struct {
	Pod, Node string // who sends: a pod with a network of its own, or a node
	From      netip.Addr
	To        netip.AddrPort // the port is 0 if none was named
	Protocol  string
}

// FindEnds finds both ends of a packet. The error is for ends between which nothing can be sent from within the
// cluster.
func FindEnds(f *Facts, r Request) (e Ends, err error) {
	from, err := f.source(r.From)
	if err != nil {
		return e, err
	}
	to, err := f.target(r.To, r.Protocol)
	if err != nil {
		return e, err
	}
	from.addr = from.like(to.addr)
	switch {
	case from.node == "":
		return e, fmt.Errorf("a probe is sent from a pod or a node: %s is none", from.text)
	case !to.addr.IsValid():
		return e, errors.New("the destination has no address of its own: name one of its pods")
	case !from.addr.IsValid():
		return e, fmt.Errorf("%s has no address yet", from.text)
	}
	e = Ends{Node: from.node, From: from.addr, To: netip.AddrPortFrom(to.addr, to.port), Protocol: to.protocol}
	if from.pod != nil {
		e.Pod = from.pod.Name
	}
	return e, nil
}

// Holder says who has an address: a pod by its name, or a machine. Both are empty if nobody is known to.
func Holder(f *Facts, addr netip.Addr) (pod, machine string) {
	if p := f.podAt(addr); p != nil {
		return p.Name, p.Node
	}
	machine, _ = f.owner(addr)
	return "", machine
}
