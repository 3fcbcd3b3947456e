package cnishim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/containernetworking/cni/pkg/version"
)

// network is a Windows CNI configuration, of one plugin (.conf) or several (.conflist).
type network struct {
	name, version json.RawMessage
	plugins       []plugin
}

type plugin struct {
	kind string
	conf map[string]json.RawMessage
}

// parseNetwork reads a .conf or a .conflist; which one it is shows in the file, not in its name.
func parseNetwork(data []byte) (network, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return network{}, err
	}
	n := network{name: whole["name"], version: whole["cniVersion"]}
	if n.version == nil {
		n.version = json.RawMessage(`"0.2.0"`)
	}
	list := []map[string]json.RawMessage{whole}
	if whole["plugins"] != nil {
		list = nil
		if err := json.Unmarshal(whole["plugins"], &list); err != nil {
			return network{}, fmt.Errorf("plugins: %w", err)
		}
	}

	for _, conf := range list {
		var kind string
		if err := json.Unmarshal(conf["type"], &kind); err != nil || kind == "" {
			return network{}, errors.New("a plugin has no type")
		}
		if strings.ContainsAny(kind, `/\:`) {
			return network{}, fmt.Errorf("plugin type %q is a path, not a name", kind)
		}
		n.plugins = append(n.plugins, plugin{kind: strings.TrimSuffix(kind, ".exe"), conf: conf})
	}
	if len(n.plugins) == 0 {
		return network{}, errors.New("there is no plugin in it")
	}
	return n, nil
}

// knowsStatus reports whether the configuration has a version with STATUS and GC, 1.1.0 or later.
func (n network) knowsStatus() bool {
	var text string
	if json.Unmarshal(n.version, &text) != nil {
		return false
	}
	known, err := version.GreaterThanOrEqualTo(text, "1.1.0")
	return err == nil && known
}

// withAttachments adds to the input of GC what containerd said of the attachments that are in use, under the name of the specification and
// under the one that its first edition had by mistake.
func withAttachments(stdin []byte, outer map[string]json.RawMessage) ([]byte, error) {
	var conf map[string]json.RawMessage
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, err
	}
	for _, key := range []string{"cni.dev/valid-attachments", "cni.dev/attachments"} {
		if list := outer[key]; list != nil {
			conf[key] = list
		}
	}
	return json.Marshal(conf)
}

// stdin is what one plugin reads: its part of the configuration, the network's name, the result so far, and of what
// the runtime offers that which the plugin declared it can use.
func (n network) stdin(p plugin, outer map[string]json.RawMessage, previous json.RawMessage) ([]byte, error) {
	conf := maps.Clone(p.conf)
	conf["name"], conf["cniVersion"] = n.name, n.version
	if len(previous) > 0 {
		conf["prevResult"] = previous
	}
	var wants map[string]bool
	if raw := conf["capabilities"]; raw != nil {
		if err := json.Unmarshal(raw, &wants); err != nil {
			return nil, fmt.Errorf("capabilities of %s: %w", p.kind, err)
		}
		delete(conf, "capabilities")
	}

	var offers map[string]json.RawMessage
	if raw := outer["runtimeConfig"]; raw != nil {
		if err := json.Unmarshal(raw, &offers); err != nil {
			return nil, fmt.Errorf("runtimeConfig: %w", err)
		}
	}

	given := map[string]json.RawMessage{}
	for name, value := range offers {
		if wants[name] {
			given[name] = value
		}
	}
	if len(given) > 0 {
		raw, err := json.Marshal(given)
		if err != nil {
			return nil, err
		}
		conf["runtimeConfig"] = raw
	}
	return json.Marshal(conf)
}
