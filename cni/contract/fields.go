package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// used are the fields of a configuration that this package, or cni/ipam, reads, in lower case. What is below dns,
// runtimeConfig, policies and arguments is not looked at: it is the runtime's, or goes to HNS.
var used = map[string][]string{
	"": {"cniversion", "cniversions", "name", "type", "apiversion", "ipmasq", "ipmasqnetwork", "loopbackdsr",
		"policies", "additionalargs", "dns", "ipam",
		"runtimeconfig", "prevresult", "cni.dev/valid-attachments", "cni.dev/attachments", "capabilities",
		"optionalflags", "additionalroutes",
		"args", "disablecheck", "disablegc", "loadonlyinlinedplugins"},
	"ipam": {"type", "datadir", "ranges", "subnet", "rangestart", "rangeend", "gateway", "routes"},
	"optionalflags": {"localroutedportmapping", "allowaclportmapping", "forcebridgegateway", "enabledualstack",
		"loopbackdsr",
		"gatewayfromadditionalroutes"},
}

// harmless are fields that are found in the field and have no effect here, with the reason.
var harmless = map[string]string{
	"master":             "the HNS network is bound to an adapter already",
	"ipam.environment":   "addresses are kept on the node",
	"ipam.addressspace":  "addresses are kept on the node",
	"ipam.queryinterval": "addresses are kept on the node",
	"ipam.ipaddress":     "a pod gets the next free address of the range",
	"ipam.resolvconf":    "a pod's servers come from dns and the runtime",
}

// unused returns the fields of a configuration that are not known, sorted, and a sentence for each that has no effect.
func unused(data []byte) (unknown, sentences []string) {
	var top map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil {
		return nil, nil
	}
	look := func(prefix string, fields map[string]json.RawMessage) {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			key := strings.ToLower(name)
			switch reason, known := harmless[joined(prefix, key)]; {
			case known:
				sentences = append(sentences, fmt.Sprintf("field %q has no effect: %s", joined(prefix, name), reason))
			case !slices.Contains(used[prefix], key):
				unknown = append(unknown, joined(prefix, name))
			}
		}
	}

	look("", top)
	for _, name := range slices.Sorted(maps.Keys(top)) {
		var below map[string]json.RawMessage
		if prefix := strings.ToLower(name); prefix != "" && used[prefix] != nil &&
			json.Unmarshal(top[name], &below) == nil {
			look(prefix, below)
			if prefix == "ipam" && routeHasGateway(below) {
				sentences = append(sentences,
					`field "ipam.routes[].gateway" has no effect: it is GW there, and wincni read nothing else`)
			}
		}
	}
	return unknown, sentences
}

// routeHasGateway reports whether a route of an ipam section names its gateway in full, as some published
// configurations do.
func routeHasGateway(ipam map[string]json.RawMessage) bool {
	for name, value := range ipam {
		type route struct{ Gateway, GW json.RawMessage }
		var routes []route
		if strings.EqualFold(name, "routes") && json.Unmarshal(value, &routes) == nil {
			return slices.ContainsFunc(routes, func(r route) bool { return r.Gateway != nil && r.GW == nil })
		}
	}
	return false
}

func joined(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}
