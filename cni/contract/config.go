// Package contract reads the network configuration that container runtimes give to CNI plugins on Windows. It accepts
// the spellings found in the field and converts every policy to the form of HNS's v2 schema. It is pure.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"porthole.dev/porthole/hns"
)

// Config is the configuration of a Windows plugin. The case of keys does not matter, because files in the field differ
// in it.
type Config struct {
	CNIVersion string `json:"cniVersion"`
	// Name is also the name of the HNS network.
	Name string `json:"name"`
	Type string `json:"type"`
	// APIVersion of HNS in upstream's plugins. HCN is used whatever it says: 1 is HNS's first interface, for Docker.
	APIVersion int `json:"apiVersion"`
	// IPMasqNetwork is reached without address translation. Packets to everywhere else leave with the node's address.
	IPMasqNetwork string        `json:"ipMasqNetwork"`
	LoopbackDSR   Bool          `json:"loopbackDSR"`
	OptionalFlags OptionalFlags `json:"optionalFlags"`
	// AdditionalRoutes are routes of a pod beside the default route.
	AdditionalRoutes []Route       `json:"additionalRoutes"`
	RawPolicies      []NamedPolicy `json:"policies"`
	// AdditionalArgs is what wincni calls policies.
	AdditionalArgs   []NamedPolicy        `json:"AdditionalArgs"`
	DNS              DNS                  `json:"dns"`
	IPAM             json.RawMessage      `json:"ipam"`
	RuntimeConfig    RuntimeConfig        `json:"runtimeConfig"`
	PrevResult       json.RawMessage      `json:"prevResult"`
	ValidAttachments []types.GCAttachment `json:"cni.dev/valid-attachments"`
	// Policies are RawPolicies and AdditionalArgs in HNS v2 form.
	Policies []hns.Policy `json:"-"`
	// Warnings describe fields without effect.
	Warnings []string `json:"-"`
	// Unknown are the fields of the configuration that this package does not know. A plugin may know them.
	Unknown []string `json:"-"`
	// Raw is the configuration as it was given, for fields that only one plugin has.
	Raw json.RawMessage `json:"-"`
}

// OptionalFlags are those of Microsoft's plugins sdnbridge and sdnoverlay.
type OptionalFlags struct {
	// LocalRoutedPortMapping lets programs of the node reach host ports of pods too.
	LocalRoutedPortMapping Bool `json:"localRoutedPortMapping"`
	// AllowACLPortMapping adds a rule that allows the container's port of each host port.
	AllowACLPortMapping Bool `json:"allowAclPortMapping"`
	// ForceBridgeGateway makes the second address of the subnet the gateway, whatever else says.
	ForceBridgeGateway Bool `json:"forceBridgeGateway"`
	EnableDualStack    Bool `json:"enableDualStack"`
	LoopbackDSR        Bool `json:"loopbackDSR"`
	// GatewayFromAdditionalRoutes takes the gateway from the default route among AdditionalRoutes.
	GatewayFromAdditionalRoutes Bool `json:"gatewayFromAdditionalRoutes"`
}

// Route is a route as CNI writes it.
type Route struct {
	Dst string `json:"dst"`
	GW  string `json:"gw"`
}

// Bool is a truth value that may be written as a text: Calico and OVN write "true" and "false".
type Bool bool

// UnmarshalJSON implements json.Unmarshaler. An empty text is false.
func (b *Bool) UnmarshalJSON(data []byte) error {
	switch strings.ToLower(strings.Trim(string(data), `"`)) {
	case "true":
		*b = true
	case "false", "null", "":
		*b = false
	default:
		return fmt.Errorf("%s is neither true nor false", data)
	}
	return nil
}

// NamedPolicy is a policy as configurations write it. Only those named EndpointPolicy are for endpoints.
type NamedPolicy struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// DNS holds the name resolution settings of a configuration.
type DNS struct {
	Nameservers []string `json:"nameservers"`
	Domain      string   `json:"domain"`
	Search      []string `json:"search"`
	Options     []string `json:"options"`
}

// RuntimeConfig holds what the runtime adds for one pod.
type RuntimeConfig struct {
	DNS struct {
		Servers  []string `json:"servers"`
		Searches []string `json:"searches"`
		Options  []string `json:"options"`
	} `json:"dns"`
	PortMappings []PortMapping `json:"portMappings"`
}

// PortMapping is a hostPort of a pod.
type PortMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

// Parse reads a configuration as a runtime gives it to a plugin. The error for a text that is not JSON, or a field
// that is not of its type, names the line and column; that for an address, range, port or policy type that cannot be
// names the field and its value.
func Parse(data []byte) (*Config, error) {
	c, err := parse(data)
	if err != nil {
		return nil, err
	}
	err = c.checkFields()
	if err == nil {
		err = c.readPolicies()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the network configuration of %s: %w", c.Name, err)
	}
	return c, nil
}

// ParseToRemove reads a configuration by which something is removed. It does not look at addresses and policies, so
// that a pod that an earlier version attached with nonsense can go. Policies is empty.
func ParseToRemove(data []byte) (*Config, error) { return parse(data) }

func parse(data []byte) (*Config, error) {
	c := Config{Raw: slices.Clone(data)}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("reading the network configuration%w", At(data, err))
	}
	if c.Name == "" {
		return nil, errors.New("reading the network configuration: it has no name, which is the HNS network's name")
	}
	switch c.APIVersion {
	case 0, 2:
	case 1:
		c.Warnings = append(c.Warnings,
			"apiVersion 1 has no effect: it is for Docker, and policies in its form are converted")
	default:
		return nil,
			fmt.Errorf("reading the network configuration of %s: apiVersion %d is not known: 2 is that of containerd",
				c.Name, c.APIVersion)
	}

	c.LoopbackDSR = c.LoopbackDSR || c.OptionalFlags.LoopbackDSR
	var harmless []string
	c.Unknown, harmless = unused(data)
	c.Warnings = append(c.Warnings, harmless...)
	return &c, nil
}

// readPolicies fills Policies.
func (c *Config) readPolicies() error {
	for _, raw := range slices.Concat(c.RawPolicies, c.AdditionalArgs) {
		if !strings.EqualFold(raw.Name, "EndpointPolicy") {
			continue
		}
		p, err := normalise(raw.Value)
		if err == nil {
			err = checkPolicy(p)
		}
		if err != nil {
			return fmt.Errorf("policy %s: %w", raw.Value, err)
		}
		c.Policies = append(c.Policies, p)
	}
	return nil
}

// The names that HNS v2 has for types of policies and for their settings, by the lower-case spellings found in the
// field.
var (
	policyTypes = map[string]string{
		"outboundnat": "OutBoundNAT", "route": "SDNRoute", "sdnroute": "SDNRoute", "acl": "ACL", "qos": "QOS",
		"portmapping": "PortMapping", "nat": "PortMapping", "l4proxy": "L4Proxy", "l4wfpproxy": "L4WFPPROXY",
		"l2driver":        "L2Driver",
		"provideraddress": "ProviderAddress", "pa": "ProviderAddress", "interfaceconstraint": "InterfaceConstraint",
		"encapoverhead": "EncapOverhead", "portname": "PortName", "tieracl": "TierAcl", "iov": "IOV",
	}
	settingNames = map[string]string{
		"exceptionlist": "Exceptions", "exceptions": "Exceptions", "destinations": "Destinations",
		"destinationprefix": "DestinationPrefix", "needencap": "NeedEncap", "nexthop": "NextHop", "vip": "VirtualIP",
		"pa": "ProviderAddress", "provideraddress": "ProviderAddress",
	}
)

// normalise converts a policy in flat (v1) or nested (v2) form to the nested form with the names of HNS v2. If a key
// is there in two spellings, the first in byte order counts, which is the one with capitals.
func normalise(value json.RawMessage) (hns.Policy, error) {
	var flat map[string]json.RawMessage
	if err := json.Unmarshal(value, &flat); err != nil {
		return hns.Policy{}, err
	}

	kind := ""
	settings := map[string]json.RawMessage{}
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(flat))) {
		var err error
		switch strings.ToLower(key) {
		case "type":
			err = json.Unmarshal(flat[key], &kind)
		case "settings", "data":
			var nested map[string]json.RawMessage // stays nil for null
			err = json.Unmarshal(flat[key], &nested)
			maps.Copy(settings, nested)
		}
		if err != nil {
			return hns.Policy{}, err
		}
	}

	for key, v := range flat {
		switch strings.ToLower(key) {
		case "type", "settings", "data":
		default:
			settings[key] = v
		}
	}

	name, known := policyTypes[strings.ToLower(kind)]
	if !known {
		types := slices.Compact(slices.Sorted(maps.Values(policyTypes)))
		return hns.Policy{}, fmt.Errorf("policy Type %q is none that an endpoint of HNS can have: %s", kind,
			strings.Join(types, ", "))
	}
	if name == "OutBoundNAT" || name == "SDNRoute" || name == "ProviderAddress" {
		renameSettings(settings)
	}
	data, err := json.Marshal(settings)
	return hns.Policy{Type: name, Settings: data}, err
}

// renameSettings gives settings the names that HNS v2 has. A setting that is already there under that name stays.
func renameSettings(settings map[string]json.RawMessage) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		to, known := settingNames[strings.ToLower(key)]
		if !known || to == key {
			continue
		}
		if _, there := settings[to]; !there {
			settings[to] = settings[key]
		}
		delete(settings, key)
	}
}
