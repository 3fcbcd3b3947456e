package ovn

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// DefaultBridge is OVN's integration bridge.
const DefaultBridge = "br-int"

// Config is the configuration of the plugin.
type Config struct {
	CNIVersion string
	Name       string
	Bridge     string
	// Database is that of the host's Open vSwitch, as ovsdb.Dial takes it; "": the usual one.
	Database string
	// Subnet is the range of the node's pods; zero: the configuration has none, and the annotation decides alone.
	Subnet netip.Prefix
	DNS    types.DNS
	// ValidAttachments are those that GC keeps.
	ValidAttachments []types.GCAttachment
	// Remarks are about fields that have no effect or are not known.
	Remarks []string
}

// wireConfig is the file. Its booleans are strings in the first published one.
type wireConfig struct {
	CNIVersion       string               `json:"cniVersion"`
	Name             string               `json:"name"`
	Bridge           string               `json:"bridge"`
	Database         string               `json:"ovsdb"`
	IsGateway        flag                 `json:"isGateway"`
	IPMasq           flag                 `json:"ipMasq"`
	IPAM             json.RawMessage      `json:"ipam"`
	DNS              types.DNS            `json:"dns"`
	RuntimeConfig    runtimeConfig        `json:"runtimeConfig"`
	ValidAttachments []types.GCAttachment `json:"cni.dev/valid-attachments"`
}

type runtimeConfig struct {
	DNS struct {
		Servers  []string `json:"servers"`
		Searches []string `json:"searches"`
		Options  []string `json:"options"`
	} `json:"dns"`
}

// flag is a boolean that may be written as a string.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	text := string(data)
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	switch strings.ToLower(text) {
	case "true":
		*f = true
	case "false", "", "null":
		*f = false
	default:
		return fmt.Errorf("%s is neither true nor false", data)
	}
	return nil
}

// known are the fields that have a meaning or that runtimes add.
var known = []string{"cniversion", "name", "type", "bridge", "ovsdb", "isgateway", "ipmasq", "ipam", "dns",
	"runtimeconfig", "capabilities", "prevresult",
	"cni.dev/valid-attachments", "disablecheck", "disablegc"}

// Parse reads a configuration. A missing cniVersion means 0.2.0.
func Parse(data []byte) (Config, error) {
	var w wireConfig
	if err := json.Unmarshal(data, &w); err != nil {
		return Config{}, fmt.Errorf("reading the network configuration: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return Config{}, fmt.Errorf("reading the network configuration: %w", err)
	}
	if w.Name == "" {
		return Config{}, errors.New("reading the network configuration: it has no name")
	}

	c := Config{CNIVersion: w.CNIVersion, Name: w.Name, Bridge: w.Bridge, Database: w.Database, DNS: w.DNS,
		ValidAttachments: w.ValidAttachments}
	if c.CNIVersion == "" {
		c.CNIVersion = "0.2.0"
	}
	if c.Bridge == "" {
		c.Bridge = DefaultBridge
	}
	if r := w.RuntimeConfig.DNS; len(r.Servers) > 0 || len(r.Searches) > 0 {
		c.DNS = types.DNS{Nameservers: r.Servers, Search: r.Searches, Options: r.Options}
	}
	if err := c.readIPAM(w.IPAM); err != nil {
		return Config{}, err
	}

	for name := range fields {
		if !slices.Contains(known, strings.ToLower(name)) {
			c.Remarks = append(c.Remarks, fmt.Sprintf("field %q is not known and has no effect", name))
		}
	}
	slices.Sort(c.Remarks)
	if w.IPMasq {
		c.Remarks = append(c.Remarks, "ipMasq has no effect: OVN passes packets to the outside through the nodes")
	}
	return c, nil
}

// readIPAM takes the range of the configuration. The addresses themselves come from the annotation of each pod.
func (c *Config) readIPAM(data json.RawMessage) error {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	var ipam struct {
		Type   string `json:"type"`
		Subnet string `json:"subnet"`
	}

	if err := json.Unmarshal(data, &ipam); err != nil {
		return fmt.Errorf("reading the network configuration of %s: ipam: %w", c.Name, err)
	}
	if ipam.Type != "" && ipam.Type != "host-local" {
		return fmt.Errorf(
			"reading the network configuration of %s: ipam type %q: OVN gives each pod its address, so that only host-local, whose subnet is checked, makes sense",
			c.Name, ipam.Type)
	}
	if ipam.Subnet == "" {
		return nil
	}
	subnet, err := netip.ParsePrefix(ipam.Subnet)
	if err != nil {
		return fmt.Errorf("reading the network configuration of %s: ipam subnet %q is not a range", c.Name, ipam.Subnet)
	}
	c.Subnet = subnet.Masked()
	return nil
}
