package podnet

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/script"
)

// TestScripts plays testdata. A script has these sections:
//
//	-- pods --        the pod range of this node
//	-- network --     what HNS has of our name: "type TYPE", and "subnet RANGE via GATEWAY" for each; empty: no network
//	-- endpoints --   those of the network: NAME, "local" or "remote", and "in host" if it is in the host's namespace
//	-- replace --     "yes" for --replace-network
//	-- want plan --   the changes, or the error
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txtar", func(*testing.T) script.Player { return &player{} })
}

type player struct {
	pods    netip.Prefix
	seen    Seen
	replace bool
}

func (p *player) Give(section, text string) error {
	text = strings.TrimSpace(text)
	switch section {
	case "pods":
		var err error
		p.pods, err = netip.ParsePrefix(text)
		return err
	case "network":
		p.seen.Network = hns.Network{}
		return eachLine(text, p.network)
	case "endpoints":
		p.seen.Endpoints, p.seen.Adapter = nil, false
		return eachLine(text, p.endpoint)
	case "replace":
		p.replace = text == "yes"
		return nil
	}
	return fmt.Errorf("no section is called %q", section)
}

func eachLine(text string, take func(words []string) error) error {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			if err := take(words); err != nil {
				return fmt.Errorf("line %q: %w", line, err)
			}
		}
	}
	return nil
}

func (p *player) network(words []string) error {
	p.seen.Network.ID, p.seen.Network.Name = "net", NetworkName
	switch {
	case words[0] == "type" && len(words) == 2:
		p.seen.Network.Type = words[1]
	case words[0] == "subnet" && len(words) == 4:
		prefix, err := netip.ParsePrefix(words[1])
		if err != nil {
			return err
		}
		gateway, err := netip.ParseAddr(words[3])
		if err != nil {
			return err
		}
		p.seen.Network.Subnets = append(p.seen.Network.Subnets, hns.Subnet{Prefix: prefix, Gateway: gateway})
	default:
		return fmt.Errorf("want type or subnet")
	}
	return nil
}

func (p *player) endpoint(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("want a name, and local or remote")
	}
	e := hns.Endpoint{ID: hns.EndpointID("id-of-" + words[0]), Name: words[0], Remote: words[1] == "remote"}
	if len(words) > 2 {
		e.Namespace, p.seen.Adapter = "host", true
	}
	p.seen.Endpoints = append(p.seen.Endpoints, e)
	return nil
}

func (p *player) Show(string) (string, error) {
	wanted, err := Bridged(Options{PodCIDR: p.pods, Cluster: p.pods, Services: p.pods, Node: p.pods.Addr()})
	if err != nil {
		return "", err
	}
	p.seen.Host = hns.Namespace{ID: "host", Type: "HostDefault"}
	plan, err := MakePlan(wanted, p.seen, p.replace)
	if err != nil {
		return "error: " + err.Error(), nil
	}
	return plan.String(), nil
}
