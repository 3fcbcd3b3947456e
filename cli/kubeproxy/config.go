package kubeproxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	config "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	node "porthole.dev/porthole/node/kubeproxy"
)

// Ports of upstream (pkg/cluster/ports).
const (
	healthzPort = 10256
	metricsPort = 10249
)

// longestPeriod is the longest time between full checks, regardless of the configuration: changes that others make to
// the host must not go unnoticed for longer.
const longestPeriod = 30 * time.Second

// settings are the options of a run and what only the command needs, from file, flags and environment.
type settings struct {
	node.Options

	override, writeTo          string
	cleanup, initOnly, version bool
	noHealthz, noMetrics       bool
	healthzPort, metricsPort   *int32
	warnings                   []string
}

// host is what resolve needs from the machine; tests replace it.
type host struct {
	getenv   func(string) string
	hostname func() (string, error)
	readFile func(string) ([]byte, error)
}

// resolve applies file, flags and defaults in this order.
func resolve(flags map[string]string, h host) (*settings, error) {
	s := &settings{Options: node.Options{ConfigFile: flags["config"]}}
	if s.ConfigFile != "" {
		if err := s.read(h.readFile); err != nil {
			return nil, err
		}
	} else {
		s.Config.Winkernel.EnableDSR = true
	}

	var noEffect []string
	for _, o := range options() {
		v, is := flags[o.name]
		if !is {
			continue
		}
		if err := o.set(s, v); err != nil {
			return nil, fmt.Errorf("--%s: %w", o.name, err)
		}
		if o.linux {
			noEffect = append(noEffect, "--"+o.name)
		}
	}

	// --version needs nothing else to be right.
	if s.version {
		return s, nil
	}
	s.Settle, s.Period = s.Config.IPTables.MinSyncPeriod.Duration, min(s.Config.IPTables.SyncPeriod.Duration,
		longestPeriod)
	s.warn("no effect in this mode, for they concern Linux: %s", noEffect)
	s.warn("feature gates have no effect here: %s", slices.Sorted(maps.Keys(s.Config.FeatureGates)))
	s.environment(h.getenv)
	s.defaults()
	if err := s.name(h.hostname); err != nil {
		return nil, err
	}
	return s, s.validate()
}

// warn notes a warning about names; none if there are none.
func (s *settings) warn(format string, names []string) {
	if len(names) > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf(format, strings.Join(names, ", ")))
	}
}

// read reads a KubeProxyConfiguration. Unknown and repeated fields only yield warnings: the file of a newer cluster
// must not stop a node.
func (s *settings) read(readFile func(string) ([]byte, error)) error {
	data, err := readFile(s.ConfigFile)
	if err != nil {
		return fmt.Errorf("reading --config: %w", err)
	}
	s.ConfigData = data
	if err := yaml.Unmarshal(data, &s.Config); err != nil {
		return fmt.Errorf("reading --config %s: %w", s.ConfigFile, err)
	}
	if s.Config.Kind != "KubeProxyConfiguration" || s.Config.APIVersion != config.SchemeGroupVersion.String() {
		return fmt.Errorf("reading --config %s: it holds %q of %q, wanted is KubeProxyConfiguration of %s",
			s.ConfigFile, s.Config.Kind, s.Config.APIVersion, config.SchemeGroupVersion)
	}
	var strict config.KubeProxyConfiguration
	if err := yaml.UnmarshalStrict(data, &strict); err != nil {
		s.warnings = append(s.warnings, fmt.Sprintf("%s: %v", s.ConfigFile, err))
	}
	return nil
}

// environment reads two variables that count only where nothing else was said.
func (s *settings) environment(getenv func(string) string) {
	s.Config.Winkernel.NetworkName = cmp.Or(s.Config.Winkernel.NetworkName, getenv("KUBE_NETWORK"))
	s.ServiceInterface = cmp.Or(s.ServiceInterface, getenv("INTERFACE_TO_ADD_SERVICE_IP"))
}

// defaults fills in what was not set, as upstream does for Windows (apis/config/v1alpha1/defaults.go). One default
// differs: upstream allows 5 requests per second, which makes the start of a cluster slow.
func (s *settings) defaults() {
	c := &s.Config
	c.Kind = "KubeProxyConfiguration"
	c.APIVersion = config.SchemeGroupVersion.String()
	c.BindAddress = cmp.Or(c.BindAddress, "0.0.0.0")
	all, local := "0.0.0.0", "127.0.0.1"
	if a, err := netip.ParseAddr(c.BindAddress); err == nil && a.Is6() {
		all, local = "[::]", "[::1]"
	}

	// A port of 0 switches the server off.
	port := func(given *int32, standard int, none *bool) string {
		if given == nil || *given == 0 {
			*none = *none || given != nil
			return strconv.Itoa(standard)
		}
		return strconv.Itoa(int(*given))
	}

	healthz := port(s.healthzPort, healthzPort, &s.noHealthz)
	metrics := port(s.metricsPort, metricsPort, &s.noMetrics)
	c.HealthzBindAddress = withPort(cmp.Or(c.HealthzBindAddress, all), healthz)
	c.MetricsBindAddress = withPort(cmp.Or(c.MetricsBindAddress, local), metrics)
	c.Mode = config.ProxyMode(cmp.Or(string(c.Mode), node.Kernelspace))
	if c.ClientConnection.QPS == 0 {
		c.ClientConnection.QPS = 50
	}

	if c.ClientConnection.Burst == 0 {
		c.ClientConnection.Burst = max(100, int32(2*c.ClientConnection.QPS))
	}
	c.ClientConnection.ContentType = cmp.Or(c.ClientConnection.ContentType, "application/vnd.kubernetes.protobuf")
	c.Logging.Format = cmp.Or(c.Logging.Format, "text")
	c.ConfigSyncPeriod.Duration = cmp.Or(c.ConfigSyncPeriod.Duration, 15*time.Minute)
	c.Winkernel.RootHnsEndpointName = cmp.Or(c.Winkernel.RootHnsEndpointName, "cbr0")
	s.Mode = string(c.Mode)
	s.Kubeconfig = c.ClientConnection.Kubeconfig
}

// withPort adds the port to an address that has none.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}

// name settles this node's name: the flag before the file, and the host's own name if neither has one. Node names are
// in lower case. A flag of blanks only is an error, as with upstream's proxy.
func (s *settings) name(hostname func() (string, error)) error {
	name := strings.TrimSpace(s.override)
	if s.override != "" && name == "" {
		return errors.New("--hostname-override is blank")
	}
	name = cmp.Or(name, strings.TrimSpace(s.Config.HostnameOverride))
	if name == "" {
		var err error
		if name, err = hostname(); err != nil {
			return fmt.Errorf("reading the host's name: %w", err)
		}
	}
	s.Hostname = strings.ToLower(strings.TrimSpace(name))
	s.Config.HostnameOverride = s.Hostname
	return nil
}

// validate returns every mistake in one error.
func (s *settings) validate() error {
	c := &s.Config
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := netip.ParseAddr(c.BindAddress); err != nil {
		bad("bind address %q is no address", c.BindAddress)
	}

	for _, a := range []struct{ what, address string }{{"healthz", c.HealthzBindAddress},
		{"metrics", c.MetricsBindAddress}} {
		if err := hostPort(a.address); err != nil {
			bad("%s bind address: %w", a.what, err)
		}
	}

	switch s.Mode {
	case node.Kernelspace, node.Userspace:
	case "iptables", "ipvs", "nftables":
		bad("proxy mode %s is for Linux nodes, and upstream's kube-proxy has it; this program knows %s and %s", s.Mode,
			node.Kernelspace, node.Userspace)
	default:
		bad("proxy mode %q is unknown; this program knows %s and %s", s.Mode, node.Kernelspace, node.Userspace)
	}

	if vip := c.Winkernel.SourceVip; vip != "" {
		var err error
		if s.SourceVIP, err = netip.ParseAddr(vip); err != nil {
			bad("source VIP %q is no address", vip)
		}
	}

	s.ClusterRanges = prefixes(strings.Split(c.ClusterCIDR, ","), "cluster CIDR", bad)
	if slices.Equal(c.NodePortAddresses, []string{"primary"}) {
		s.NodePortsPrimary = true
	} else {
		s.NodePortRanges = prefixes(c.NodePortAddresses, "node port address", bad)
	}
	if c.ConfigSyncPeriod.Duration < 0 {
		bad("config sync period %s is negative", c.ConfigSyncPeriod.Duration)
	}

	if s.Settle < 0 || s.Period < 0 {
		bad("sync periods must not be negative")
	}
	if f := c.Logging.Format; f != "text" && f != "json" {
		bad("logging format %q is unknown; text and json are known", f)
	}
	if v := c.ShowHiddenMetricsForVersion; v != "" && !minorVersion(v) {
		bad("show hidden metrics for version %q: wanted is major.minor, such as 1.35", v)
	}

	if !s.noHealthz {
		s.Healthz = c.HealthzBindAddress
	}
	if !s.noMetrics {
		s.Metrics = c.MetricsBindAddress
	}
	return errors.Join(errs...)
}

// prefixes parses ranges of addresses, which what names in messages. It reports each bad one to bad and goes on, so
// that the user sees all mistakes at once. Bits behind the prefix are cleared.
func prefixes(texts []string, what string, bad func(string, ...any)) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if t = strings.TrimSpace(t); t == "" {
			continue
		}
		p, err := netip.ParsePrefix(t)
		if err != nil {
			bad("%s %q is no range of addresses", what, t)
			continue
		}
		out = append(out, p.Masked())
	}
	return out
}

// hostPort checks an address and a port that are given as one text.
func hostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("%q is no address", host)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	return nil
}

// minorVersion reports whether a text is major.minor.
func minorVersion(v string) bool {
	major, minor, ok := strings.Cut(v, ".")
	_, err := strconv.Atoi(major)
	_, err2 := strconv.Atoi(minor)
	return ok && err == nil && err2 == nil
}

// runnable returns an error if something is missing that only a serving proxy needs.
func (s *settings) runnable() error {
	var errs []error
	switch {
	case s.Mode == node.Kernelspace && s.Config.Winkernel.NetworkName == "":
		errs = append(errs,
			errors.New("no HNS network is named: give --network-name, winkernel.networkName or KUBE_NETWORK"))
	case s.Mode == node.Userspace && s.ServiceInterface == "":
		errs = append(errs,
			errors.New("no interface is named: give --service-interface or INTERFACE_TO_ADD_SERVICE_IP"))
	}
	if s.Kubeconfig == "" && s.Master == "" && !s.cleanup {
		errs = append(errs,
			errors.New("no API server is named: give --kubeconfig, clientConnection.kubeconfig or --master"))
	}
	return errors.Join(append(errs, node.Supported(s.Mode))...)
}

// writeConfig writes the configuration as a file that --config reads.
func writeConfig(s *settings) error {
	data, err := marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.writeTo, data, 0o600); err != nil {
		return fmt.Errorf("writing --write-config-to: %w", err)
	}
	return nil
}

// marshal writes the configuration as YAML, by its JSON names.
func marshal(s *settings) ([]byte, error) {
	data, err := json.Marshal(&s.Config)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return yaml.JSONToYAML(data)
}
