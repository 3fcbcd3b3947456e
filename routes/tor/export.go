package tor

import (
	"encoding/json"
	"fmt"
	"strings"

	"porthole.dev/porthole/routes/table"
)

// formats are the forms in which Export writes routes.
var formats = []struct {
	name, comment string
	export        func(usable []table.Wanted) (string, error)
}{
	{"frr", "!", exportFRR},
	{"bird", "#", exportBIRD},
	{"ip", "#", exportIP},
	{"json", "", exportJSON},
}

// Formats returns the names of the forms that Export knows.
func Formats() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Export writes the routes that a router needs, in one of Formats. Routes that must not exist or cannot yet are left
// out; forms that have comments name them in one.
func Export(format string, wanted []table.Wanted) (string, error) {
	for _, f := range formats {
		if f.name != format {
			continue
		}
		text, err := f.export(usable(wanted))
		if f.comment == "" || err != nil {
			return text, err
		}
		var b strings.Builder
		for _, w := range wanted {
			if w.Reason != "" {
				fmt.Fprintf(&b, "%s %s: %s of node %s: %s\n", f.comment, w.State, w.Dst, w.Node, w.Reason)
			}
		}
		return b.String() + text, nil
	}
	return "", fmt.Errorf("%q is not known; known: %s", format, strings.Join(Formats(), ", "))
}

// exportFRR writes commands of FRR's configuration, which Quagga and Cisco IOS understand too but for their prefix
// lengths.
func exportFRR(list []table.Wanted) (string, error) {
	var b strings.Builder
	for _, w := range list {
		fmt.Fprintf(&b, "%s route %s %s\n", family(w.Dst), w.Dst, w.NextHop)
	}
	return b.String(), nil
}

// exportBIRD writes a protocol of BIRD 2 for each family that has routes.
func exportBIRD(list []table.Wanted) (string, error) {
	var b strings.Builder
	for _, f := range []struct{ family, channel, name string }{{"ip", "ipv4", "porthole4"},
		{"ipv6", "ipv6", "porthole6"}} {
		fmt.Fprintf(&b, "protocol static %s {\n\t%s;\n", f.name, f.channel)
		for _, w := range list {
			if family(w.Dst) == f.family {
				fmt.Fprintf(&b, "\troute %s via %s; # %s\n", w.Dst, w.NextHop, w.Node)
			}
		}
		b.WriteString("}\n")
	}
	return b.String(), nil
}

// exportIP writes commands of iproute2. They replace a route to the same range, so that they can be given again.
func exportIP(list []table.Wanted) (string, error) {
	var b strings.Builder
	for _, w := range list {
		command := "ip"
		if family(w.Dst) == "ipv6" {
			command = "ip -6"
		}
		fmt.Fprintf(&b, "%s route replace %s via %s proto static # %s\n", command, w.Dst, w.NextHop, w.Node)
	}
	return b.String(), nil
}

// exported is one route in JSON.
type exported struct {
	Node        string `json:"node"`
	Destination string `json:"destination"`
	NextHop     string `json:"nextHop"`
}

func exportJSON(list []table.Wanted) (string, error) {
	routes := []exported{}
	for _, w := range list {
		routes = append(routes, exported{w.Node, w.Dst.String(), w.NextHop.String()})
	}
	data, err := json.MarshalIndent(routes, "", "  ")
	return string(data) + "\n", err
}
