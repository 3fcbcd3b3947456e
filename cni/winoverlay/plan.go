// Package winoverlay attaches pods to Overlay networks, as upstream's win-overlay does.
package winoverlay

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Kind is a network whose packets travel between nodes in UDP datagrams.
type Kind struct{}

// Fields are those of the configuration that only this plugin reads, for attach.Plugin.
var Fields = []string{"endpointmacprefix"}

// fields of the configuration beside those that every plugin has.
type fields struct {
	EndpointMACPrefix string        `json:"endpointMacPrefix"`
	IPMasq            contract.Bool `json:"ipMasq"`
}

// Accepts implements attach.Kind. A network has a provider address some time after it was made, and no pod can be
// reached before.
func (Kind) Accepts(network hns.Network) error {
	switch {
	case !strings.EqualFold(network.Type, hns.Overlay):
		return fmt.Errorf("network %s is of type %s: win-overlay serves Overlay", network.Name, network.Type)
	case !network.Management.IsValid():
		return fmt.Errorf("overlay network %s has no provider address yet: HNS has not bound it to a network adapter",
			network.Name)
	}
	return nil
}

// defaultMACPrefix begins the MAC addresses of pods unless the configuration has another prefix. Flannel and Calico
// expect this one.
const defaultMACPrefix = "0E-2A"

// Endpoint returns an endpoint whose gateway is the network's own. Its MAC address follows from its IPv4 address, so
// that any host can work it out.
func (Kind) Endpoint(pod attach.Pod) (hns.Endpoint, error) {
	at := pod.Addresses[0]
	addr := at.Prefix.Addr()
	if len(pod.Addresses) > 1 || !addr.Is4() {
		return hns.Endpoint{}, fmt.Errorf("addresses %v: a pod on an overlay network of Windows has one, of IPv4",
			pod.Addresses)
	}
	var own fields
	if err := json.Unmarshal(pod.Config.Raw, &own); err != nil {
		return hns.Endpoint{}, err
	}
	mac, err := macOf(own.EndpointMACPrefix, addr)
	if err != nil {
		return hns.Endpoint{}, err
	}
	policies, err := policiesOf(pod, own, addr)
	if err != nil {
		return hns.Endpoint{}, err
	}

	more, err := attach.AdditionalRoutes(pod.Config)
	if err != nil {
		return hns.Endpoint{}, err
	}
	e := hns.Endpoint{MAC: mac, DNS: attach.DNS(pod.Config), Policies: policies}
	e.Addrs, e.PrefixLen = attach.Addrs(pod)
	e.Routes = append(e.Routes, attach.DefaultRoute(gatewayOf(pod.Network, at)))
	e.Routes = append(e.Routes, more...)
	return e, nil
}

// gatewayOf returns the gateway of a pod: the network's, whatever the configuration says, as upstream does, because
// nobody else answers; or else the configured one, or the first address.
func gatewayOf(network hns.Network, at ipam.Address) netip.Addr {
	switch subnet := subnetOf(network, at.Prefix.Addr()); {
	case subnet.Gateway.IsValid() && !subnet.Gateway.IsUnspecified():
		return subnet.Gateway
	case at.Gateway.IsValid():
		return at.Gateway
	}
	return at.Prefix.Masked().Addr().Next()
}

// macOf returns the MAC address of a pod: two bytes of a prefix, then the four of its address.
func macOf(prefix string, addr netip.Addr) (string, error) {
	if prefix == "" {
		prefix = defaultMACPrefix
	}
	var first, second byte
	if n, err := fmt.Sscanf(prefix, "%02x-%02x", &first, &second); err != nil || n != 2 ||
		len(prefix) != len(defaultMACPrefix) {
		return "", fmt.Errorf("endpointMacPrefix %q is not of the form %s", prefix, defaultMACPrefix)
	}
	ip := addr.As4()
	return fmt.Sprintf("%02X-%02X-%02X-%02X-%02X-%02X", first, second, ip[0], ip[1], ip[2], ip[3]), nil
}

// subnetOf returns the network's subnet that has the address, the zero Subnet if none has.
func subnetOf(network hns.Network, addr netip.Addr) hns.Subnet {
	i := slices.IndexFunc(network.Subnets, func(s hns.Subnet) bool { return s.Prefix.Contains(addr) })
	if i < 0 {
		return hns.Subnet{}
	}
	return network.Subnets[i]
}

// policiesOf returns the policies of a pod's endpoint: those of the configuration, and the provider address, which is
// the node's own. With ipMasq packets to the network's subnet keep the pod's address, and others get the node's.
func policiesOf(pod attach.Pod, own fields, addr netip.Addr) ([]hns.Policy, error) {
	config := *pod.Config
	if subnet := subnetOf(pod.Network, addr); bool(own.IPMasq) && config.IPMasqNetwork == "" &&
		subnet.Prefix.IsValid() {
		config.IPMasqNetwork = subnet.Prefix.String()
	}
	provider := providerAddress{pod.Network.Management}
	pod.Config = &config
	policies, err := attach.Policies(pod)
	if err != nil {
		return nil, err
	}

	same := func(p hns.Policy) bool {
		var s providerAddress
		return p.Type == "ProviderAddress" && json.Unmarshal(p.Settings, &s) == nil && s == provider
	}
	if slices.ContainsFunc(policies, same) {
		return policies, nil
	}
	settings, err := json.Marshal(provider)
	return append(policies, hns.Policy{Type: "ProviderAddress", Settings: settings}), err
}

// providerAddress holds the settings of a policy of that name.
type providerAddress struct{ ProviderAddress netip.Addr }
