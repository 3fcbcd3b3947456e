package vxlan

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

// The hybrid overlay is how nodes without Open vSwitch, such as Windows nodes, join a cluster with OVN-Kubernetes:
// VXLAN from node to node, with annotations of its own in place of flannel's. OVN-Kubernetes gives such a node its pod
// range and makes the tunnels of the Linux nodes (ovn-kubernetes docs/features/hybrid-overlay.md,
// go-controller/hybrid-overlay/pkg/types).
const (
	hybridPrefix = "k8s.ovn.org/"
	// annotationHybridMAC is the MAC address that packets for the node have inside of VXLAN: each node writes its own.
	annotationHybridMAC = hybridPrefix + "hybrid-overlay-distributed-router-gateway-mac"
	// annotationHybridSubnet is the pod range of a node without Open vSwitch.
	annotationHybridSubnet = hybridPrefix + "hybrid-overlay-node-subnet"
	// annotationNodeSubnets has the pod ranges of a node of OVN: {"default": ["10.128.0.0/23"]}, or a text in place of
	// the list.
	annotationNodeSubnets = hybridPrefix + "node-subnets"
)

// HybridVNI is the number of the virtual network, which OVN-Kubernetes does not let anybody choose (HybridOverlayVNI).
const HybridVNI = 4097

// HybridRanges returns the pod ranges that OVN-Kubernetes gave to a node, by the node's annotations; none: it has none
// yet. A Node's spec.podCIDR is not used in such a cluster. An annotation that does not make sense is an error.
func HybridRanges(annotations map[string]string) ([]string, error) {
	if text := annotations[annotationNodeSubnets]; text != "" {
		ranges, err := defaultSubnets(text)
		if err != nil {
			return nil, fmt.Errorf("annotation %s %q: %w", annotationNodeSubnets, text, err)
		}
		return ranges, nil
	}
	text := annotations[annotationHybridSubnet]
	if text == "" {
		return nil, nil
	}
	if _, err := netip.ParsePrefix(text); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotationHybridSubnet, err)
	}
	return []string{text}, nil
}

// defaultSubnets reads the ranges of the cluster's default network.
func defaultSubnets(text string) ([]string, error) {
	var networks map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &networks); err != nil {
		return nil, err
	}
	data := networks["default"]
	if data == nil {
		return nil, errors.New("it has no network \"default\"")
	}
	var list []string
	if json.Unmarshal(data, &list) != nil {
		var one string
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, err
		}
		list = []string{one}
	}

	for _, r := range list {
		if _, err := netip.ParsePrefix(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readHybrid reads what a node with the internal address addr announces in the hybrid overlay.
func readHybrid(annotations map[string]string, addr netip.Addr) (a Announcement, ok bool, err error) {
	text, ok := annotations[annotationHybridMAC]
	if !ok {
		return a, false, nil
	}
	a = Announcement{VNI: HybridVNI, Public: addr}
	if a.MAC, err = ParseMAC(text); err != nil {
		return a, true, fmt.Errorf("has annotation %s: %w", annotationHybridMAC, err)
	}
	return a, true, nil
}

// read reads what a node announces, in the form that this overlay uses. addr is the node's internal address.
func (c Config) read(annotations map[string]string, addr netip.Addr) (Announcement, bool, error) {
	if c.Hybrid {
		return readHybrid(annotations, addr)
	}
	return Read(annotations)
}

// unwritten returns those annotations of this node's announcement that the Node does not have; nil if it has all.
func (c Config) unwritten(a Announcement, have map[string]string) map[string]string {
	if !c.Hybrid {
		return a.Unwritten(have)
	}
	if mac, err := ParseMAC(have[annotationHybridMAC]); err == nil && mac == a.MAC {
		return nil
	}
	return map[string]string{annotationHybridMAC: a.MAC.String()}
}

// silent is why nothing can be sent to a node that has not announced itself.
func (c Config) silent(node string) string {
	if c.Hybrid {
		return fmt.Sprintf(
			"node %s is not in OVN-Kubernetes' hybrid overlay yet: annotation %s is missing (on Linux nodes ovnkube-node writes it if it runs with --enable-hybrid-overlay)",
			node, annotationHybridMAC)
	}
	return fmt.Sprintf(
		"node %s has not announced its VXLAN endpoint yet (annotation %s, which porthole routes --mode vxlan or flanneld writes there)", node, AnnotationBackendData)
}
