// Package join puts the parts of `porthole join` and `porthole leave` together: the facts of this machine, the
// cluster, the checks and the steps of this system.
package join

import (
	"time"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/step"
	"porthole.dev/porthole/node/routes"
)

// Options are what a user says. Texts that are empty mean that the default, or what is found, counts.
type Options struct {
	Discovery
	RoutesOptions

	Node, NodeIP, NIC string
	CRISocket         string
	Network           string // one of Networks; "": that of the run before, of the cluster, or host-gateway
	PodCIDR           string
	ServiceCIDR       string
	Labels, Taints    string
	KubeletArgs       []string
	Environment       map[string]string
	Containerd        string // Windows: auto, install or existing
	SandboxImage      string
	PatchesDir        string
	FirewallPorts     []int // Windows: TCP ports to let in beside those of the node's programs
	NoFirewall        bool  // Windows: the rules of the inbound firewall are the user's
	Ignore            []string

	Root       string // Windows: C:\
	InstallDir string

	Timeout time.Duration
	Wait    string // ready, registered or none
	DryRun  bool
	Plan    bool // says which topologies this node can have, and changes nothing
}

// RoutesOptions are what a user says about porthole-routes.
type RoutesOptions struct {
	RoutesArgs []string // further arguments of porthole-routes
	BGPConfig  string   // file with the peers of the mode bgp
	// CheckRoutes returns the mistake in the arguments with which porthole-routes would be started: its own command
	// has the flags.
	CheckRoutes func(args []string) error
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

// Values of Options.Wait.
const (
	WaitReady      = "ready"
	WaitRegistered = "registered"
	WaitNone       = "none"
)

// Networks are the values of Options.Network: the modes of porthole-routes, and networks of others.
var Networks = append(routes.Modes(), "flannel", "none")

// Setup is what the steps of a system are made from.
type Setup struct {
	Options
	install.Node
	Journal *step.Journal
	// Bundled is the folder of the program that runs: what belongs to it lies beside it.
	Bundled string
}

// Progress is told how a run goes on; it prints for users.
type Progress interface {
	// Checked is called once, with the results of the checks.
	Checked(list []step.Check)
	// Step is called after each step that was carried out.
	Step(step.Result)
	// Say is called with what a user should know at once.
	Say(text string)
}

// testPoint is called before and after each step that changes something. Builds for tests end the process there.
var testPoint = func(string) {}
