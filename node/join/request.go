package join

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/node/routes"
)

// Request is what a user asks for. Texts that are empty mean that the default, or what is found, counts.
type Request struct {
	Discovery
	Choices

	NodeName string
	Root     string // Windows: C:\
	// CheckRoutes returns the mistake in the arguments with which porthole-routes would be started: its own command
	// has the flags. nil: nobody checks them.
	CheckRoutes func(args []string) error

	Timeout time.Duration
	Wait    string // ready, registered or none
	DryRun  bool
	Plan    bool // says which topologies this node can have, and changes nothing
}

// Discovery is what a user says about the cluster.
type Discovery struct {
	Endpoint string           // host:port of the API server
	Token    credential.Token // for the discovery
	TLSToken credential.Token // for the certificate
	Pins     credential.Pins
	SkipCA   bool
	File     string // --discovery-file
}

// Choices are what a user says about the node. The journal keeps them for a later run without arguments. None is a
// secret.
type Choices struct {
	NodeIP    string `json:"nodeIP,omitempty"`
	NIC       string `json:"nic,omitempty"`
	CRISocket string `json:"criSocket,omitempty"`
	// Network is one of Networks; "": that of the run before, of the cluster, or host-gateway.
	Network     string            `json:"network"`
	RoutesArgs  []string          `json:"routesArgs,omitempty"` // further arguments of porthole-routes
	BGPConfig   string            `json:"bgpConfig,omitempty"`  // file with the peers of the mode bgp
	PodCIDR     string            `json:"podCIDR,omitempty"`
	ServiceCIDR string            `json:"serviceCIDR,omitempty"`
	Labels      string            `json:"labels,omitempty"`
	Taints      string            `json:"taints,omitempty"`
	KubeletArgs []string          `json:"kubeletArgs,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	PatchesDir  string            `json:"patchesDir,omitempty"`
	Ignore      []string          `json:"ignore,omitempty"`
	InstallDir  string            `json:"installDir"`
	// FirewallPorts are TCP ports to let in beside those of the node's programs, and NoFirewall means that the rules
	// of the inbound firewall are the user's. Both are of Windows.
	FirewallPorts []int `json:"firewallPorts,omitempty"`
	NoFirewall    bool  `json:"noFirewall,omitempty"`
}

// Values of Request.Wait.
const (
	WaitReady      = "ready"
	WaitRegistered = "registered"
	WaitNone       = "none"
)

// Networks are the values of Choices.Network: the modes of porthole-routes, and networks of others.
var Networks = append(routes.Modes(), "flannel", "none")

// over returns the choices of a run that names no cluster: `porthole join` alone means "as before". A network that it
// names stays, to be refused if it is another one, and checks may be ignored beside those of before.
func (c Choices) over(before Choices) Choices {
	// The choices of before count as a whole, even where this run gives others.
	out := before
	out.Network = cmp.Or(c.Network, before.Network)
	out.Ignore = slices.Concat(c.Ignore, before.Ignore)
	return out
}

// absolute returns the choices with full paths: a later run may have another working folder.
func (c Choices) absolute() (Choices, error) {
	for flag, path := range map[string]*string{"--patches": &c.PatchesDir, "--bgp-config": &c.BGPConfig} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return c, fmt.Errorf("finding %s: %w", flag, err)
		}
	}
	return c, nil
}

// Facts of the journal that a later run needs.
const (
	factPods     = "podSubnet"
	factServices = "serviceSubnet"
	factChoices  = "options" // Choices as JSON
)

// parseChoices reads what the journal keeps. ok is false if it keeps none.
func parseChoices(facts map[string]string) (c Choices, ok bool, err error) {
	text := facts[factChoices]
	if text == "" {
		return c, false, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, false, fmt.Errorf("reading the journal's options: %w", err)
	}
	return c, true, nil
}
