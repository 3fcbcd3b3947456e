package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/portrules"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/emulator/hnsd"
)

// ruled is implemented by a DataPlane that can say what it does with one endpoint's packets.
type ruled interface {
	PortRules(ctx context.Context, all desired.State, id string) (portrules.List, bool, error)
}

// EndpointRules is the answer of GET /rules/ENDPOINT.
type EndpointRules struct {
	Name        string `json:"name"`
	NetworkName string `json:"networkName"`
	portrules.List
}

// rulesOf returns the rules of one endpoint of a state, which is named by its id, the beginning of it, its name or an
// address.
func rulesOf(ctx context.Context, state *hnsd.State, on DataPlane, endpoint string) (answer EndpointRules,
	err error) {
	o, err := findEndpoint(state, endpoint)
	if err != nil {
		return answer, err
	}
	plane, ok := on.(ruled)
	if !ok {
		return answer, fmt.Errorf("this HNS carries no packets")
	}

	// An endpoint of a network without packets is known to HNS only; the answer says so.
	rules, known, err := plane.PortRules(ctx, hnsd.Desired(state), o.ID)
	if !known {
		rules = portrules.List{Endpoint: o.ID, Network: o.Doc.Text("HostComputeNetwork"),
			Rules: []portrules.Rule{}, Notes: []string{"networks of its type carry no packets here"}}
	}
	answer = EndpointRules{Name: o.Doc.Text("Name"), List: rules}
	if n, ok := state.Get(hnsd.Network, rules.Network); ok {
		answer.NetworkName = n.Doc.Text("Name")
		answer.Type = n.Doc.Text("Type")
	}
	return answer, err
}

// findEndpoint returns the endpoint with an id, or the only one with a name, an address or an id that begins with at
// least four characters. The text may have braces and upper case. The error of a text that no endpoint has lists those
// that there are.
func findEndpoint(state *hnsd.State, text string) (*hnsd.Object, error) {
	var found []*hnsd.Object
	text = strings.ToLower(strings.Trim(text, "{}"))
	// An id that fits wins over names and addresses, whatever else has them.
	for _, o := range state.List(hnsd.Endpoint) {
		if o.ID == text {
			return o, nil
		}
		if strings.EqualFold(o.Doc.Text("Name"), text) || len(text) >= 4 && strings.HasPrefix(o.ID, text) ||
			slices.Contains(hnsd.EndpointAddresses(o), text) {
			found = append(found, o)
		}
	}

	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("no endpoint has the id, name or address %q: %s", text, knownEndpoints(state))
	}

	var ids []string
	for _, o := range found {
		ids = append(ids, o.ID)
	}
	return nil, fmt.Errorf("%d endpoints have the name or address %q: choose one of %s", len(found), text,
		strings.Join(ids, ", "))
}

// knownEndpoints lists the endpoints, at most twenty, for the error about one that was not found.
func knownEndpoints(state *hnsd.State) string {
	const most = 20
	endpoints := state.List(hnsd.Endpoint)
	if len(endpoints) == 0 {
		return "HNS has no endpoints"
	}

	var texts []string
	for _, o := range endpoints[:min(len(endpoints), most)] {
		texts = append(texts, fmt.Sprintf("%s (%s %s)", o.ID, o.Doc.Text("Name"),
			strings.Join(hnsd.EndpointAddresses(o), " ")))
	}
	if more := len(endpoints) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return "there are " + strings.Join(texts, ", ")
}
