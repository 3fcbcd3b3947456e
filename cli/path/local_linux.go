package path

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/observe"
	"porthole.dev/porthole/cluster/probe"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/path"
)

const defaultDir = layout.DefaultDir

// localFacts asks every node of the local cluster, and its router. A node that does not answer is one without facts;
// unknown says why.
func localFacts(ctx context.Context, dir string) (nodes []path.Node, unknown string, err error) {
	l, err := layout.New(dir)
	if err != nil {
		return nil, "", err
	}
	outputs, err := observe.Facts(ctx, l)
	if err != nil && len(outputs) == 0 {
		return nil, "", err
	}
	if err != nil {
		unknown = err.Error()
	}
	for name, data := range outputs {
		var n path.Node
		if err := json.Unmarshal(data, &n); err != nil {
			return nil, "", fmt.Errorf("reading the facts of %s: %w", name, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, unknown, nil
}

// sendProbe sends a packet from one end to the other, and watches every machine that told facts, and the pods at both
// ends.
func sendProbe(ctx context.Context, dir string, all *path.Facts, ends path.Ends, result path.Result) (*path.Probe,
	error) {
	hosts, err := config.LabOf(dir)
	if err != nil {
		return nil, err
	}
	watched := map[string]string{}
	for _, n := range all.Nodes {
		netns := hosts.Netns(n.Name)
		if n.Name == observe.RouterName {
			netns = hosts.RouterNetns()
		}
		if platform.NetnsExists(netns) {
			watched[n.Name] = platform.NetnsPath(netns)
		}
	}
	addresses := []netip.Addr{ends.From, ends.To.Addr()}
	for _, w := range result.Ways {
		if w.Backend.IsValid() {
			addresses = append(addresses, w.Backend.Addr())
		}
	}
	networks, err := probe.NetnsOf(addresses...)
	if err != nil {
		return nil, err
	}
	for addr, netns := range networks {
		if pod, _ := path.Holder(all, addr); pod != "" {
			watched[pod] = netns
		}
	}

	sender := ends.Pod
	if sender == "" {
		sender = ends.Node
	}
	if watched[sender] == "" {
		return nil, fmt.Errorf("the network of %s is not on this machine: it does not run in the local cluster now",
			sender)
	}
	p, err := probe.Send(ctx,
		probe.Options{Sender: watched[sender], Watched: watched, To: ends.To, Protocol: ends.Protocol})
	if err != nil {
		return nil, err
	}
	result.Witness(p, ends.To.Addr(), func(addr netip.Addr) string {
		pod, machine := path.Holder(all, addr)
		for _, name := range []string{pod, machine} {
			if watched[name] != "" {
				return name
			}
		}
		return ""
	})
	return p, nil
}
