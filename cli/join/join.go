// Package join is the command `porthole join`: it has the flags of `kubeadm join`.
package join

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cli/routes"
	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/credential"
	node "porthole.dev/porthole/node/join"
)

// flags are those of the command as they were given.
type flags struct {
	node.Request
	token, discoveryToken, tlsToken, tokenFile, file, config string
	hashes, env                                              []string
	output                                                   string
	controlPlane                                             controlPlane
	verbosity                                                int
}

// controlPlane are kubeadm's flags for another machine of the control plane. They are known so that the error can say
// what to use.
type controlPlane struct {
	on      bool
	key     string
	address string
	port    int
}

// Command makes `porthole join`.
func Command() *cobra.Command {
	f := flags{Request: node.Request{Timeout: 5 * time.Minute, CheckRoutes: routes.Check}}

	c := &cobra.Command{
		Use:   "join [ADDRESS[:PORT] of the API server]",
		Short: "Make this machine a node of a cluster that kubeadm made",
		Long: `Makes this machine a worker node: checks it, finds and verifies the cluster, gets the node's certificate, writes what kubeadm
would write, and starts the node's programs. Returns when the node is Ready.

The line that "kubeadm token create --print-join-command" prints works with "kubeadm" replaced by "porthole". The token is kept in
memory only. Run again it changes nothing that is right, and finishes what was interrupted; then it needs no token.

Exit codes: 0 done, 1 failed, 2 misused, 3 restart the machine first, 4 a check failed and nothing was changed, 6 installed, but
not Ready in time (its programs go on trying).`,
		Example: `  porthole join 10.0.0.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:1b00…9579
  porthole join 10.0.0.1:6443 --token-file - --discovery-token-ca-cert-hash sha256:1b00…9579 < token
  porthole join --discovery-file cluster.conf --tls-bootstrap-token abcdef.0123456789abcdef
  porthole join --config join.yaml --dry-run
  porthole join --discovery-file admin.conf --network bgp --bgp-config bgp.yaml
  porthole join --discovery-file admin.conf --plan   # which networks this machine can have in that cluster
  porthole join                                  # again on a node: finds what is not right any more`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.resolve(c.Flags(), args, os.Stdin)
			if err != nil {
				return program.Misused(err)
			}
			// Flags are checked before logging begins, so that a misuse is the only output.
			if err := logging.Set(f.verbosity, ""); err != nil {
				return err
			}
			p := newPrinter(c.OutOrStdout(), c.ErrOrStderr(), f.output == "json")
			report := node.Run(c.Context(), o, p)
			if err := p.end(c.Context(), report, o); err != nil {
				return err
			}
			if code := report.Outcome.ExitCode(); code != 0 {
				return program.ExitCode(code)
			}
			return nil
		},
	}

	f.register(c.Flags())
	program.Values(c, "network", node.Networks...)
	program.Values(c, "wait", node.WaitReady, node.WaitRegistered, node.WaitNone)
	return c
}

// register adds the flags: kubeadm's, then ours.
func (f *flags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.token, "token", "", "token for --discovery-token and --tls-bootstrap-token")
	fs.StringVar(&f.discoveryToken, "discovery-token", "", "token by which the cluster's information is verified")
	fs.StringVar(&f.tlsToken, "tls-bootstrap-token", "", "token that asks for the node's certificate")
	fs.StringSliceVar(&f.hashes, "discovery-token-ca-cert-hash", nil,
		"sha256:… of the public key of the cluster's certificate authority; may be given several times. Authorities without one are not trusted")
	fs.BoolVar(&f.SkipCA, "discovery-token-unsafe-skip-ca-verification", false,
		"join without --discovery-token-ca-cert-hash: whoever knows the token can then play the cluster")
	fs.StringVar(&f.file, "discovery-file", "", "kubeconfig, a path or an https URL, in place of a discovery token")
	fs.StringVar(&f.NodeName, "node-name", "", "name of the node; empty: the host's name in lower case")
	fs.StringVar(&f.CRISocket, "cri-socket", "", "socket of the container runtime; empty: found")
	fs.StringVar(&f.config, "config", "",
		"file with kubeadm's JoinConfiguration (v1beta4, v1beta3) and, as another document, NodeConfiguration (porthole.dev/v1alpha1)")
	fs.StringSliceVar(&f.Ignore, "ignore-preflight-errors", nil,
		"names of checks whose errors are shown and ignored; all stands for all")
	fs.BoolVar(&f.DryRun, "dry-run", false, "check and plan, and change nothing")
	fs.BoolVar(&f.Plan, "plan", false,
		"say which topologies of the pod network this machine can have in the cluster, which not and why, and change nothing")
	fs.StringVar(&f.PatchesDir, "patches", "",
		"folder with merge patches for the kubelet's configuration, kubeletconfiguration*.yaml or .json")

	fs.StringVar(&f.NodeIP, "node-ip", "", "address of the node; empty: that of the adapter with the default route")
	fs.StringVar(&f.NIC, "nic", "",
		"network adapter of the node, by name or MAC address, where several have a default route")
	fs.StringVar(&f.InstallDir, "install-dir", node.DefaultInstallDir,
		"folder for the programs, if no package has installed them")
	fs.StringVar(&f.Network, "network", "",
		"pod network: "+strings.Join(node.Networks, ", ")+
			"; porthole-routes makes all but the last two, which are those of\nDaemonSets; empty: that of \"porthole manifests --mode\", else "+node.Networks[0])
	fs.StringArrayVar(&f.RoutesArgs, "routes-extra-args", nil,
		"further arguments of porthole-routes, such as --vxlan-vni=4097 or --ovn-remote=tcp:10.0.0.1:6642; may be given several times")
	fs.StringVar(&f.BGPConfig, "bgp-config", "",
		"file with the peers of --network bgp (docs/use/bgp.md), of which the node keeps a copy")
	fs.StringVar(&f.PodCIDR, "pod-network-cidr", "", "range of all pods; empty: that of kubeadm-config")
	fs.StringVar(&f.ServiceCIDR, "service-cidr", "", "range of all services; empty: that of kubeadm-config")
	fs.StringVar(&f.Labels, "node-labels", "", "labels to register with: key=value,…")
	fs.StringVar(&f.Taints, "register-with-taints", "", "taints to register with: key=value:effect,…")
	fs.StringSliceVar(&f.KubeletArgs, "kubelet-extra-args", nil,
		"further arguments of the kubelet, such as --max-pods=50; may be given several times")
	fs.StringArrayVar(&f.env, "env", nil,
		"NAME=VALUE: variable of the node's programs, such as HTTPS_PROXY; may be given several times")
	fs.StringVar(&f.tokenFile, "token-file", "",
		"file with the token, - for standard input: it is then in no list of processes")
	fs.DurationVar(&f.Timeout, "timeout", f.Timeout, "how long all of it may take")
	fs.StringVar(&f.Wait, "wait", node.WaitReady,
		"what to wait for: ready, registered or none (programs are not started)")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	fs.IntVarP(&f.verbosity, "v", "v", 0, "log level")

	// The flags of kubeadm for control planes exist so that their error can say what to use
	// instead.
	fs.BoolVar(&f.controlPlane.on, "control-plane", false, "")
	fs.StringVar(&f.controlPlane.key, "certificate-key", "", "")
	fs.StringVar(&f.controlPlane.address, "apiserver-advertise-address", "", "")
	fs.IntVar(&f.controlPlane.port, "apiserver-bind-port", 0, "")
	for _, name := range controlPlaneFlags {
		fs.Lookup(name).Hidden = true
	}
}

// controlPlaneFlags are refused in resolve.
var controlPlaneFlags = []string{"control-plane", "certificate-key", "apiserver-advertise-address",
	"apiserver-bind-port"}

// besideConfig are the flags that kubeadm, and so we, take beside --config. The others are in the file.
var besideConfig = []string{"config", "dry-run", "plan", "node-name", "ignore-preflight-errors", "cri-socket",
	"patches", "output", "v", "timeout", "wait", "token-file"}

// routesFlags are flags of porthole-routes that join sets by flags of its own.
var routesFlags = []string{"mode", "bgp-config", "kubeconfig", "hostname-override", "cluster-cidr", "service-cidr"}

// resolve checks the flags and turns them into options. Errors never repeat a token.
func (f *flags) resolve(fs *pflag.FlagSet, args []string, stdin io.Reader) (node.Request, error) {
	for _, name := range controlPlaneFlags {
		if fs.Changed(name) {
			return f.Request, fmt.Errorf("--%s: Porthole joins workers only; use kubeadm on the control plane", name)
		}
	}
	// What the file says is checked like flags.
	if f.config != "" {
		if err := f.readConfig(fs, args); err != nil {
			return f.Request, err
		}
	}
	if f.output != "text" && f.output != "json" {
		return f.Request, fmt.Errorf("-o %s: text or json", f.output)
	}
	if !slices.Contains([]string{node.WaitReady, node.WaitRegistered, node.WaitNone}, f.Wait) {
		return f.Request, fmt.Errorf("--wait %s: ready, registered or none", f.Wait)
	}

	if f.Network != "" && !slices.Contains(node.Networks, f.Network) {
		return f.Request, fmt.Errorf("--network %s: %s", f.Network, strings.Join(node.Networks, ", "))
	}
	// Flags that join sets itself would be there twice.
	for _, a := range f.RoutesArgs {
		if name, _, _ := strings.Cut(a, "="); slices.Contains(routesFlags, strings.TrimLeft(name, "-")) {
			return f.Request, fmt.Errorf(
				"--routes-extra-args %s: join sets this flag: --network, --bgp-config, --node-name, --pod-network-cidr and --service-cidr", name)
		}
	}
	if err := check(f.Request); err != nil {
		return f.Request, err
	}
	var err error
	if f.Environment, err = services.ParseVariables(append(services.Variables(f.Environment), f.env...)); err != nil {
		return f.Request, fmt.Errorf("--env: %w", err)
	}
	return f.discovery(args, stdin)
}

// discovery reads who the cluster is. Without anything it is the one that this machine is a node of.
func (f *flags) discovery(args []string, stdin io.Reader) (o node.Request, err error) {
	if len(args) == 1 {
		if f.Endpoint, err = credential.Endpoint(args[0]); err != nil {
			return f.Request, err
		}
	}
	// A token in a file, or on standard input, takes the place of --token.
	if f.tokenFile != "" {
		if f.token, err = readToken(f.tokenFile, stdin); err != nil {
			return f.Request, err
		}
	}

	// parse takes the first text that is not empty: the flag for one purpose, else --token for
	// both. The first error stays.
	parse := func(flag string, into *credential.Token, texts ...string) {
		for _, t := range texts {
			if t == "" || err != nil {
				continue
			}
			if *into, err = credential.ParseToken(t); err != nil {
				err = fmt.Errorf("%s: %w", flag, err)
			}
			return
		}
	}
	parse("--discovery-token", &f.Token, f.discoveryToken, f.token)
	parse("--tls-bootstrap-token", &f.TLSToken, f.tlsToken, f.token)
	if err != nil {
		return f.Request, err
	}

	if f.Pins, err = credential.ParsePins(f.hashes); err != nil {
		return f.Request, fmt.Errorf("--discovery-token-ca-cert-hash: %w", err)
	}
	f.File = f.file
	return f.Request, f.consistent()
}

// consistent finds what contradicts itself, with kubeadm's rules.
func (f *flags) consistent() error {
	if f.discoveryToken == "" && f.file != "" { // --token asks for the certificate only
		f.Token = credential.Token{}
	}
	switch {
	case f.file != "" && f.discoveryToken != "":
		return errors.New("--discovery-token and --discovery-file cannot both be given")
	case f.file != "" && f.Endpoint != "":
		return errors.New("the address of the API server is in --discovery-file: give one of both")
	case f.Token.Valid() && f.Endpoint == "":
		return errors.New("with a token the address of the API server is needed: porthole join 10.0.0.1:6443 --token …")
	case f.Token.Valid() && len(f.Pins) == 0 && !f.SkipCA:
		return errors.New(
			"need --discovery-token-ca-cert-hash to verify the cluster, or --discovery-token-unsafe-skip-ca-verification")
	case f.Endpoint != "" && !f.Token.Valid() && len(f.hashes) > 0 && f.token+f.discoveryToken+f.tlsToken == "":
		return errors.New("--token is missing")
	}
	return nil
}

// readToken reads at most 4096 bytes, of which blanks at both ends do not count.
func readToken(path string, stdin io.Reader) (string, error) {
	read := io.Reader(stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		defer file.Close()
		read = file
	}
	text, err := io.ReadAll(io.LimitReader(read, 4096))
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
