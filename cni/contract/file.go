package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// File is a CNI configuration as it lies on a node: a .conf with one plugin or a .conflist with several.
type File struct {
	Name    string // base name of the file
	Network string
	Version string // cniVersion; "" if it names none
	Plugins []FilePlugin
}

// FilePlugin is one plugin of a File.
type FilePlugin struct {
	Type   string // without .exe
	Kind   PluginKind
	Config *Config // what this package understands of it; nil if it is others' and has another form
}

// PluginKind says who serves a type of plugin on a Windows node.
type PluginKind string

// Kinds of plugins. Those of others' run as they are: our programs pass their configuration on untouched.
const (
	Ours    PluginKind = "ours"           // a program of this repository serves it
	Meta    PluginKind = "calls another"  // it hands over to a plugin of ours, or of others
	Foreign PluginKind = "others'"        // known, and served by a program of others
	Unknown PluginKind = "not known here" // perhaps it works
)

// plugins that are found on Windows nodes.
var plugins = map[string]PluginKind{
	"win-bridge": Ours, "win-overlay": Ours, "wincni": Ours, "ovn_cni": Ours, "ovn-k8s-cni-overlay": Ours,
	"sdnbridge": Ours, "sdnoverlay": Ours, "nat": Foreign, "flannel": Meta,
	"azure-vnet": Foreign, "calico": Foreign, "kube-ovn": Foreign, "host-local": Foreign, "bridge": Foreign,
	"portmap": Foreign,
}

// gone are types of plugins that no Windows node can use, with what to use instead.
var gone = map[string]string{
	"weave-net": "Weave ended and never ran on Windows: use `porthole routes --mode vxlan`",
	"kubenet":   "kubenet is no CNI plugin, was removed with Kubernetes 1.24 and never ran on Windows: use `porthole routes`, which gives each node its range as kubenet did",
	"ipip":      "Windows has no IP-in-IP: use `porthole routes --mode vxlan`, or --mode host-gateway in one segment",
}

// Instead returns what to use in place of a network that Windows nodes cannot have (a plugin's type, a mode, a value of
// --network-plugin), or "" if there is nothing against the name.
func Instead(name string) string {
	n := strings.ToLower(strings.TrimSuffix(name, ".exe"))
	switch n {
	case "weave", "weavenet":
		n = "weave-net"
	case "ip-in-ip", "ip_in_ip", "calico-ipip":
		n = "ipip"
	}
	return gone[n]
}

// ReadFile reads a configuration file. The error names the file, and the line and column if the text is wrong there.
func ReadFile(path string, data []byte) (*File, error) {
	var whole struct {
		Name       string            `json:"name"`
		CNIVersion string            `json:"cniVersion"`
		Plugins    []json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, fmt.Errorf("%s%w", path, At(data, err))
	}
	f := &File{Name: filepath.Base(path), Network: whole.Name, Version: whole.CNIVersion}
	parts := whole.Plugins
	if parts == nil {
		parts = []json.RawMessage{data}
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: there is no plugin in it", path)
	}

	for i, part := range parts {
		p, err := f.readPlugin(data, part)
		if err != nil && whole.Plugins != nil {
			err = fmt.Errorf("plugin %d: %w", i+1, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		f.Plugins = append(f.Plugins, p)
	}
	return f, nil
}

// readPlugin reads one plugin's part of the file with this text. A plugin of others' is not read further than its type.
func (f *File) readPlugin(text []byte, part json.RawMessage) (FilePlugin, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(part, &fields); err != nil {
		return FilePlugin{}, err
	}
	kind, delegate := "", json.RawMessage(nil)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch strings.ToLower(key) {
		case "type":
			if err := json.Unmarshal(fields[key], &kind); err != nil {
				return FilePlugin{}, fmt.Errorf("type: %w", err)
			}
		case "delegate":
			delegate = fields[key]
		}
	}

	p := FilePlugin{Type: strings.TrimSuffix(kind, ".exe"), Kind: Unknown}
	if known, ok := plugins[strings.ToLower(p.Type)]; ok {
		p.Kind = known
	}
	if instead := Instead(p.Type); instead != "" {
		return p, fmt.Errorf("plugin type %q: %s", kind, instead)
	}
	if p.Type == "" {
		return p, errors.New("a plugin has no type")
	}

	var err error
	switch p.Kind {
	case Ours:
		if err = checkTypes(text, part); err == nil {
			p.Config, err = Parse(merged(fields, f.Network, f.Version))
		}
	case Meta:
		if err = checkTypes(text, delegate); err == nil {
			p.Config, err = delegated(delegate, f.Network, f.Version)
		}
	case Foreign:
		// For those who look only: what is wrong or unknown in it is the other program's business.
		if c, unread := Parse(merged(fields, f.Network, f.Version)); unread == nil {
			c.Warnings, c.Unknown = nil, nil
			p.Config = c
		}
	}
	return p, err
}

// checkTypes returns an error if a field of a part of a file is not of its type, with the line and column in the file.
// Parse, which reads the part as a runtime rewrites it, cannot know them. Other faults of the part are left to Parse.
func checkTypes(file []byte, part json.RawMessage) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(part, new(Config)), &wrong) {
		return nil
	}
	inFile := *wrong
	inFile.Offset += int64(max(0, bytes.Index(file, part)))
	return fmt.Errorf("reading the network configuration%w", At(file, &inFile))
}

// merged returns a plugin's part of a list as a runtime gives it to the plugin: with the name and version of the list.
func merged(fields map[string]json.RawMessage, network, version string) []byte {
	out := maps.Clone(fields)
	set := func(key, value string) {
		for k := range out {
			if strings.EqualFold(k, key) {
				return
			}
		}
		if value != "" {
			out[key], _ = json.Marshal(value) // a text always can
		}
	}
	set("name", network)
	set("cniVersion", version)
	data, err := json.Marshal(out)
	if err != nil {
		return []byte("{}")
	}
	return data
}

// delegated reads what flannel hands over to another plugin. Flannel gives it the network's name, and the node's range
// as ipam.
func delegated(delegate json.RawMessage, network, version string) (*Config, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(delegate, &fields); err != nil || fields == nil {
		return nil, errors.New("flannel has no delegate, the plugin that it hands over to")
	}
	for key := range fields {
		if k := strings.ToLower(key); k == "name" || k == "ipam" {
			return nil, fmt.Errorf("flannel's delegate has %q, which flannel sets itself", key)
		}
	}
	return Parse(merged(fields, network, version))
}

// String prints a file in the form that all plugins' configurations are read to.
func (f *File) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "network %s, cniVersion %s\n", f.Network, orNone(f.Version))
	for _, p := range f.Plugins {
		fmt.Fprintf(&b, "plugin %s, %s\n", p.Type, p.Kind)
		if c := p.Config; c != nil {
			b.WriteString(c.lines())
		}
	}
	return b.String()
}

func orNone(s string) string {
	if s == "" {
		return "not given"
	}
	return s
}

// lines prints a configuration, a line for each thing that has an effect or is warned of.
func (c *Config) lines() string {
	var b strings.Builder
	line := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(&b, "  "+format+"\n", args...)
		}
	}
	line(len(c.IPAM) > 0, "ipam %s", compact(c.IPAM))
	line(c.IPMasqNetwork != "", "no address translation to %s", c.IPMasqNetwork)
	line(bool(c.LoopbackDSR), "a pod reaches itself through its service")
	dns := c.DNS
	line(len(dns.Nameservers)+len(dns.Search) > 0 || dns.Domain != "", "dns servers %v search %v domain %q",
		dns.Nameservers, dns.Search, dns.Domain)

	line(c.OptionalFlags != OptionalFlags{}, "flags %s", strings.Join(c.OptionalFlags.names(), " "))
	for _, r := range c.AdditionalRoutes {
		line(true, "route %s via %s", r.Dst, r.GW)
	}
	for _, p := range c.Policies {
		line(true, "policy %s %s", p.Type, p.Settings)
	}
	for _, w := range c.Warnings {
		line(true, "warning: %s", w)
	}
	line(len(c.Unknown) > 0, "fields that only the plugin may know: %s", strings.Join(c.Unknown, ", "))
	return b.String()
}

// names returns the flags that are set.
func (o OptionalFlags) names() (set []string) {
	for _, f := range []struct {
		name string
		on   Bool
	}{
		{"localRoutedPortMapping", o.LocalRoutedPortMapping}, {"allowAclPortMapping", o.AllowACLPortMapping},
		{"forceBridgeGateway", o.ForceBridgeGateway},
		{"enableDualStack", o.EnableDualStack}, {"loopbackDSR", o.LoopbackDSR},
		{"gatewayFromAdditionalRoutes", o.GatewayFromAdditionalRoutes},
	} {
		if f.on {
			set = append(set, f.name)
		}
	}
	return set
}

func compact(data json.RawMessage) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(data)
	}
	return string(out)
}
