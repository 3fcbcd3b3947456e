// Package service decides which frontends a node serves and which backends each has, from Services, EndpointSlices and
// the node's own place. It is pure and shared by all modes: what to do about a frontend is the mode's own plan.
//
//	Service × IP family × {cluster IP, node port, external IP, ingress IP} × port  =  Frontend
//	EndpointSlices of the service and family, by traffic policy, topology and condition  =  its Backends
package service

import (
	"fmt"
	"net/netip"
	"time"

	"porthole.dev/porthole/hns"
)

// Kind of a frontend.
type Kind string

// Kinds of frontends.
const (
	ClusterIP  Kind = "cluster IP"
	NodePort   Kind = "node port"
	ExternalIP Kind = "external IP"
	Ingress    Kind = "ingress IP"
)

// Key is what makes a frontend unique on a node: two frontends with one key cannot both be served.
type Key struct {
	VIP      netip.Addr // zero: every address of the node
	IPv6     bool
	Protocol hns.Protocol
	Port     uint16
}

func (k Key) String() string {
	vip := "node"
	if k.VIP.IsValid() {
		vip = k.VIP.String()
	} else if k.IPv6 {
		vip = "node6"
	}
	return fmt.Sprintf("%s %d/%s", vip, k.Port, k.Protocol)
}

// Frontend is one thing to serve. Without backends it is to be refused or absent, as the mode can.
type Frontend struct {
	Key
	Kind Kind
	// Service is namespace/name, Port its port's name; both are for people and for order.
	Service, PortName string
	// Affinity keeps a client on one backend.
	Affinity bool
	// AffinityTimeout is how long an idle client is remembered; 0 without affinity.
	AffinityTimeout time.Duration
	// LocalOnly says that the traffic policy allows backends of this node only.
	LocalOnly bool
	// PreserveDestination asks for packets that still carry the frontend's address.
	PreserveDestination bool
	Backends            []Backend
}

// Backend is one address behind a frontend.
type Backend struct {
	Addr netip.Addr
	Port uint16
	// Local: it runs on this node.
	Local bool
}

// Node is this node's place.
type Node struct {
	Name string
	Zone string // "" when unknown
}

// Problem is something in a service that cannot be served as written.
type Problem struct {
	Service string
	// Reason is one CamelCase word, as events have it; Text is for people.
	Reason, Text string
}

// Result of Frontends.
type Result struct {
	Frontends []Frontend // ordered: DNS and the API first, then by service
	Problems  []Problem
}
