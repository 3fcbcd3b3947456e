package join

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/similar"
)

// joinConfiguration is kubeadm's, as far as it concerns a worker. Both versions are read into it: v1beta3 has
// kubeletExtraArgs as a map.
type joinConfiguration struct {
	APIVersion       string `json:"apiVersion"`
	Kind             string `json:"kind"`
	DryRun           bool   `json:"dryRun"`
	CACertPath       string `json:"caCertPath"`
	NodeRegistration struct {
		Name                  string     `json:"name"`
		CRISocket             string     `json:"criSocket"`
		Taints                []v1.Taint `json:"taints"`
		KubeletExtraArgs      any        `json:"kubeletExtraArgs"`
		IgnorePreflightErrors []string   `json:"ignorePreflightErrors"`
		ImagePullPolicy       string     `json:"imagePullPolicy"`
		ImagePullSerial       *bool      `json:"imagePullSerial"`
	} `json:"nodeRegistration"`
	Discovery struct {
		BootstrapToken *struct {
			Token                    string   `json:"token"`
			APIServerEndpoint        string   `json:"apiServerEndpoint"`
			CACertHashes             []string `json:"caCertHashes"`
			UnsafeSkipCAVerification bool     `json:"unsafeSkipCAVerification"`
		} `json:"bootstrapToken"`
		File *struct {
			KubeConfigPath string `json:"kubeConfigPath"`
		} `json:"file"`
		TLSBootstrapToken string `json:"tlsBootstrapToken"`
		Timeout           string `json:"timeout"` // v1beta3
	} `json:"discovery"`
	ControlPlane any      `json:"controlPlane"`
	SkipPhases   []string `json:"skipPhases"`
	Patches      *struct {
		Directory string `json:"directory"`
	} `json:"patches"`
	Timeouts map[string]string `json:"timeouts"`
}

// nodeConfiguration is ours: what kubeadm's document has no place for.
type nodeConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Network    struct {
		Mode            string   `json:"mode"`            // as --network
		NIC             string   `json:"nic"`             // as --nic
		PodSubnet       string   `json:"podSubnet"`       // as --pod-network-cidr
		ServiceSubnet   string   `json:"serviceSubnet"`   // as --service-cidr
		RoutesExtraArgs []string `json:"routesExtraArgs"` // as --routes-extra-args
		BGPConfig       string   `json:"bgpConfig"`       // as --bgp-config
	} `json:"network"`
	Containerd struct {
		Mode         string `json:"mode"`         // auto (the default) or existing: both use the one that is installed
		SandboxImage string `json:"sandboxImage"` // the cluster's pause image; it is read, and no check uses it yet
	} `json:"containerd"`
	Services struct {
		Environment map[string]string `json:"environment"` // as --env
	} `json:"services"`
	Firewall struct {
		Manage     *bool `json:"manage"`     // false: join makes no rules (Windows)
		ExtraPorts []int `json:"extraPorts"` // TCP ports that join opens beside 10250 and 10256 (Windows)
	} `json:"firewall"`
}

// readConfig reads --config into the flags. Unknown fields are errors with their line and column.
func (f *flags) readConfig(fs *pflag.FlagSet, args []string) error {
	var mixed error
	// Flags beside --config would leave open which of both counts.
	fs.Visit(func(g *pflag.Flag) {
		if !slices.Contains(besideConfig, g.Name) {
			mixed = fmt.Errorf("--config and --%s cannot both be given: write it into the file", g.Name)
		}
	})
	if mixed != nil {
		return mixed
	}
	if len(args) > 0 {
		return errors.New("--config names the API server: give one of both")
	}
	text, err := os.ReadFile(f.config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}

	found := false
	// A file may hold kubeadm's document and ours, in any order; other documents are mistakes.
	for _, doc := range documents(string(text)) {
		var kind struct{ APIVersion, Kind string }
		if err := sigsyaml.Unmarshal([]byte(doc), &kind); err != nil {
			return fmt.Errorf("--config %s: %w", f.config, err)
		}
		switch {
		case strings.TrimSpace(doc) == "":
			continue
		case kind.Kind == "JoinConfiguration" &&
			(kind.APIVersion == "kubeadm.k8s.io/v1beta4" || kind.APIVersion == "kubeadm.k8s.io/v1beta3"):
			found = true
			err = f.kubeadm(doc)
		case kind.Kind == "NodeConfiguration" && kind.APIVersion == "porthole.dev/v1alpha1":
			err = f.own(doc)
		default:
			err = fmt.Errorf(
				"%s %s is not known: JoinConfiguration of kubeadm.k8s.io/v1beta4 or v1beta3, NodeConfiguration of porthole.dev/v1alpha1", kind.APIVersion, kind.Kind)
		}
		if err != nil {
			return fmt.Errorf("--config %s: %w", f.config, err)
		}
	}

	if !found {
		return fmt.Errorf("--config %s has no JoinConfiguration", f.config)
	}
	return nil
}

// documents divides a file of YAML. Each part begins with the empty lines that keep its line numbers those of the file.
func documents(text string) (parts []string) {
	before := 0
	for _, part := range strings.Split(text, "\n---") {
		parts = append(parts, strings.Repeat("\n", before)+part)
		before += strings.Count(part, "\n") + 1
	}
	return parts
}

// strict reads a document. If a field is unknown, or is no text, list or so on, the error says where it stands.
func strict(doc string, into any) error {
	text, err := sigsyaml.YAMLToJSONStrict([]byte(doc))
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(into); err == nil {
		return nil
	}

	// The decoder tells a field's name and no place; the place is looked for in the document
	// itself.
	var wrong *json.UnmarshalTypeError
	name, unknown := strings.CutPrefix(err.Error(), `json: unknown field "`)
	name = strings.TrimSuffix(name, `"`)
	problem := "there is no field " + name
	switch {
	case errors.As(err, &wrong):
		problem = fmt.Sprintf("%s cannot be a %s", wrong.Field, wrong.Value)
		name = wrong.Field[strings.LastIndex(wrong.Field, ".")+1:]
	case !unknown:
		return err
	default:
		if meant := like(name, into); meant != "" {
			problem += ": did you mean " + meant + "?"
		}
	}
	var root yaml.Node
	if yaml.Unmarshal([]byte(doc), &root) == nil {
		if line, column := position(&root, name); line > 0 {
			return fmt.Errorf("line %d, column %d: %s", line, column, problem)
		}
	}
	return errors.New(problem)
}

// like returns the field of a document, or of an object in it, whose name is most like one; "" if none is.
func like(name string, document any) (found string) {
	best := 3 // changes of letters, of which two are allowed
	var look func(reflect.Type)
	look = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		for i := range t.NumField() {
			field, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if d := similar.Edits(name, field); field != "" && d < best {
				best, found = d, field
			}
			look(t.Field(i).Type)
		}
	}
	look(reflect.TypeOf(document))
	return found
}

// position returns where a key stands first.
func position(n *yaml.Node, key string) (line, column int) {
	for i, below := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && below.Value == key {
			return below.Line, below.Column
		}
		if line, column = position(below, key); line > 0 {
			return line, column
		}
	}
	return 0, 0
}

// kubeadm reads a JoinConfiguration. Flags that may be given beside --config win over its fields.
func (f *flags) kubeadm(doc string) error {
	var c joinConfiguration
	if err := strict(doc, &c); err != nil {
		return err
	}
	if c.ControlPlane != nil {
		return errors.New("controlPlane: Porthole joins workers only; use kubeadm on the control plane")
	}
	// set keeps a value that a flag has set.
	set := func(into *string, value string) {
		if *into == "" {
			*into = value
		}
	}

	r := c.NodeRegistration
	set(&f.NodeName, r.Name)
	set(&f.CRISocket, r.CRISocket)
	f.Ignore = append(f.Ignore, r.IgnorePreflightErrors...)
	f.DryRun = f.DryRun || c.DryRun
	var taints []string
	for _, t := range r.Taints {
		taints = append(taints, t.ToString())
	}
	f.Taints = strings.Join(taints, ",")
	if c.Patches != nil {
		set(&f.PatchesDir, c.Patches.Directory)
	}
	if err := f.extraArgs(r.KubeletExtraArgs); err != nil {
		return err
	}

	// The token of the discovery is that of the certificate too, unless the file has another one.
	d := c.Discovery
	set(&f.tlsToken, d.TLSBootstrapToken)
	if b := d.BootstrapToken; b != nil {
		f.token = b.Token
		f.hashes = b.CACertHashes
		f.SkipCA = b.UnsafeSkipCAVerification
		f.Endpoint = b.APIServerEndpoint
	}
	if d.File != nil {
		f.file = d.File.KubeConfigPath
	}
	return nil
}

// extraArgs reads kubeletExtraArgs: a list of name and value (v1beta4), or a map (v1beta3). Those that are flags of
// ours are taken as such.
func (f *flags) extraArgs(value any) error {
	type arg struct{ name, value string }
	var list []arg
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for name, value := range v {
			list = append(list, arg{name, fmt.Sprint(value)})
		}
		// The order of a map is not determined; sorted, the kubelet gets the same arguments each
		// time.
		slices.SortFunc(list, func(a, b arg) int { return strings.Compare(a.name, b.name) })
	case []any:
		for _, item := range v {
			m, ok := item.(map[string]any)
			if !ok {
				return errors.New("kubeletExtraArgs must be a list of name and value")
			}
			list = append(list, arg{fmt.Sprint(m["name"]), fmt.Sprint(m["value"])})
		}
	default:
		return errors.New("kubeletExtraArgs must be a list of name and value")
	}

	// These four are not arguments of the kubelet with us: join needs to know them.
	for _, a := range list {
		switch a.name {
		case "node-ip":
			f.NodeIP = a.value
		case "node-labels":
			f.Labels = a.value
		case "register-with-taints":
			f.Taints = a.value
		case "hostname-override":
			f.NodeName = a.value
		default:
			f.KubeletArgs = append(f.KubeletArgs, "--"+a.name+"="+a.value)
		}
	}
	return nil
}

// containerdModes are the values of containerd.mode. Both take the containerd that is there; join installs none.
var containerdModes = []string{"", "auto", "existing"}

// own reads a NodeConfiguration, which has what kubeadm's document has no place for.
func (f *flags) own(doc string) error {
	var c nodeConfiguration
	if err := strict(doc, &c); err != nil {
		return err
	}
	if c.Network.Mode != "" {
		f.Network = c.Network.Mode
	}
	f.NIC = c.Network.NIC
	f.PodCIDR = c.Network.PodSubnet
	f.ServiceCIDR = c.Network.ServiceSubnet

	if !slices.Contains(containerdModes, c.Containerd.Mode) {
		return fmt.Errorf("containerd.mode: %q is none of auto, existing: containerd must be installed before",
			c.Containerd.Mode)
	}
	for _, port := range c.Firewall.ExtraPorts {
		if port < 1 || port > 65535 {
			return fmt.Errorf("firewall.extraPorts: %d is no TCP port, 1 to 65535", port)
		}
	}
	f.NoFirewall = c.Firewall.Manage != nil && !*c.Firewall.Manage
	f.FirewallPorts = c.Firewall.ExtraPorts
	f.RoutesArgs = c.Network.RoutesExtraArgs
	f.BGPConfig = c.Network.BGPConfig
	f.Environment = c.Services.Environment
	return nil
}
