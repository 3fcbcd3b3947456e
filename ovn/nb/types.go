package nb

import (
	"fmt"
	"net/netip"
	"time"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/podranges"
)

// Names that the whole cluster has once.
const (
	Database   = "OVN_Northbound"
	RouterName = "porthole"
	GroupName  = "porthole"
	// Mark is the key in external_ids that makes a row ours.
	Mark = "porthole"
	// uidKey is the key in external_ids of a pod's port that holds the UID of the pod.
	uidKey = "pod-uid"
	// fromKey is the key in external_ids of a node's switch that holds who said its range: the Node object, then or
	// earlier, or pods alone.
	fromKey  = "range_from"
	fromNode = "node"
	fromPods = "pods"
)

// Node is a node of the cluster as OVN needs it.
type Node struct {
	Name   string
	Since  time.Time    // when its Node object was made; zero: not known
	Subnet netip.Prefix // its pod range; zero: not assigned yet
	// Windows says that the node cannot pass packets to the outside: OVN hands those of its pods to a Linux node.
	Windows bool

	told bool // Subnet is what pods say, and not the Node object
}

// Pod is a pod that has a network of its own and has not ended.
type Pod struct {
	Namespace, Name, UID, Node string
	// Given is the address of its annotation; zero: it has none.
	Given ovnet.Address
	// Range is the range of Given if the pod runs with that address; zero: it does not, as far as is known. The pod's
	// node can make that up.
	Range netip.Prefix
}

// Key names the pod as kubectl does.
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// Service is one service with addresses of its own.
type Service struct {
	Namespace, Name string
	VIPs            []netip.Addr
	Ports           []Port
}

// Port is one port of a service with the pods behind it.
type Port struct {
	Protocol string // "tcp", "udp" or "sctp"
	Port     uint16
	Backends []netip.AddrPort
}

// Facts are what the cluster is.
type Facts struct {
	// Cluster is what ranges of nodes are held against.
	Cluster  podranges.Cluster
	Nodes    []Node
	Pods     []Pod
	Services []Service
}

// Rows are the tables of the database.
type Rows = map[string]map[ovsdb.UUID]ovsdb.Row

// Problem is something that OVN gets no object for until somebody changes it.
type Problem struct {
	Kind, Key string // "Node", "Pod" or "Service", and its name
	Reason    string // of the event
	Text      string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s %s: %s: %s", p.Kind, p.Key, p.Reason, p.Text)
}
