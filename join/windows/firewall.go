package windows

import (
	"context"
	"errors"
	"slices"
	"strconv"

	hostfirewall "porthole.dev/porthole/internal/firewall"
)

// wall is the inbound firewall of the machine; package internal/firewall implements it.
type wall interface {
	Get(names ...string) (map[string]hostfirewall.Rule, error)
	Replace(list ...hostfirewall.Rule) error
	Remove(names ...string) error
}

// hostWall is the firewall of this machine.
type hostWall struct{}

// Get, Replace and Remove are those of package internal/firewall.
func (hostWall) Get(names ...string) (map[string]hostfirewall.Rule, error) {
	return hostfirewall.Get(names...)
}

func (hostWall) Replace(list ...hostfirewall.Rule) error { return hostfirewall.Replace(list...) }

func (hostWall) Remove(names ...string) error { return hostfirewall.Remove(names...) }

// Ports that others connect to: the kubelet's for logs, exec and metrics, kube-proxy's for the health checks of load
// balancers.
const (
	kubeletPort     = 10250
	proxyHealthPort = 10256
)

// In the mode vxlan nodes send each other's pods packets to this UDP port; HNS takes no other.
const (
	vxlan     = "vxlan"
	vxlanPort = "4789"
)

// ruleGroup is how the Windows Firewall console groups the rules.
const ruleGroup = "Porthole"

// firewallRules are those of a node: one for each port that others connect to. They name no program, whose folder
// changes with each upgrade.
func (o *Options) firewallRules() (list []hostfirewall.Rule) {
	add := func(port int, what string) {
		number := strconv.Itoa(port)
		list = append(list, hostfirewall.Rule{Name: "Porthole: TCP " + number + " (" + what + ")", Group: ruleGroup,
			Protocol: hostfirewall.TCP, Ports: number})
	}
	add(kubeletPort, "kubelet")
	add(proxyHealthPort, "kube-proxy health")
	if o.Mode == vxlan {
		list = append(list, hostfirewall.Rule{Name: "Porthole: UDP " + vxlanPort + " (VXLAN)", Group: ruleGroup,
			Protocol: hostfirewall.UDP, Ports: vxlanPort})
	}
	for _, port := range o.FirewallPorts {
		add(port, "NodeConfiguration")
	}
	return list
}

// firewall is a step that lets connections to the node's ports in.
type firewall struct {
	rules []hostfirewall.Rule
	wall  wall
}

// ID names the step.
func (s firewall) ID() string { return "firewall" }

func (s firewall) names() (names []string) {
	for _, r := range s.rules {
		names = append(names, r.Name)
	}
	return names
}

// Wanted returns the rules by name.
func (s firewall) Wanted() any {
	out := map[string]hostfirewall.Rule{}
	for _, r := range s.rules {
		out[r.Name] = r
	}
	return out
}

// Observe returns the rules of these names. Where the firewall's service does not run nothing is filtered: then all is
// as wanted.
func (s firewall) Observe(context.Context) (any, error) {
	have, err := s.wall.Get(s.names()...)
	switch {
	case errors.Is(err, hostfirewall.ErrOff):
		return s.Wanted(), nil
	case err != nil:
		return nil, err
	case len(have) == 0:
		return nil, nil
	}
	return have, nil
}

// Apply makes the rules that are missing or differ.
func (s firewall) Apply(context.Context) error {
	have, err := s.wall.Get(s.names()...)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(s.rules), func(r hostfirewall.Rule) bool { return have[r.Name] == r })
	return s.wall.Replace(missing...)
}

// Undo removes the rules of our names.
func (s firewall) Undo(context.Context, []byte) error {
	if err := s.wall.Remove(s.names()...); !errors.Is(err, hostfirewall.ErrOff) {
		return err
	}
	return nil
}
