package model

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// buildService shows a service with its endpoints and, by lines, the nodes where it is not
// programmed as wanted.
func buildService(s *v1.Service, slicesOf []*discoveryv1.EndpointSlice, lines []nodeLine) Service {
	out := Service{Key: s.Namespace + "/" + s.Name, Namespace: s.Namespace, Name: s.Name, Type: string(s.Spec.Type),
		IPs: []string{}, Ports: []Port{}, State: Right}
	for _, ip := range s.Spec.ClusterIPs {
		if ip != "" && ip != v1.ClusterIPNone {
			out.IPs = append(out.IPs, ip)
		}
	}
	if s.Spec.ClusterIP == v1.ClusterIPNone {
		out.Type = "Headless"
	}
	out.External = slices.Clone(s.Spec.ExternalIPs)
	for _, in := range s.Status.LoadBalancer.Ingress {
		out.External = append(out.External, in.IP+in.Hostname)
	}
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports,
			Port{Name: p.Name, Protocol: strings.ToLower(string(p.Protocol)), Port: p.Port,
				Target: p.TargetPort.String(), NodePort: p.NodePort})
	}

	out.countEndpoints(slicesOf)
	out.judge(s, lines)
	return out
}

// countEndpoints counts each address once: a service has a slice for each family and for each hundred endpoints.
func (s *Service) countEndpoints(list []*discoveryv1.EndpointSlice) {
	seen := map[string]bool{}
	for _, slice := range list {
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			// An endpoint is known by its pod or, without one, by its addresses.
			id := strings.Join(e.Addresses, ",")
			if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
				id = e.TargetRef.Namespace + "/" + e.TargetRef.Name
				if !slices.Contains(s.Pods, id) {
					s.Pods = append(s.Pods, id)
				}
			}
			if seen[id] {
				continue
			}
			seen[id] = true

			switch {
			// An endpoint that ends is counted as such, even if it still answers.
			case e.Conditions.Terminating != nil && *e.Conditions.Terminating:
				s.Ending++
			case e.Conditions.Ready == nil || *e.Conditions.Ready:
				s.Ready++
			default:
				s.Unready++
			}
		}
	}
	slices.Sort(s.Pods)
}

// nodeLine is what one node's proxy says of a service.
type nodeLine struct {
	node string
	ProxyLine
}

// judge finds what is wrong with a service: nothing that answers, and nodes that do not have it. A
// service without a selector may have no endpoints by intent.
func (s *Service) judge(object *v1.Service, lines []nodeLine) {
	why := "porthole why service " + s.Key
	if s.Ready == 0 && len(object.Spec.Selector) > 0 {
		text := "no pod matches its selector, so nothing answers"
		if n := s.Unready + s.Ending; n > 0 {
			text = fmt.Sprintf("none of its %s is ready, so nothing answers", plural(n, "pod"))
		}
		s.Problems = append(s.Problems, Problem{State: Making, Text: text, Command: why})
	}

	for _, l := range lines {
		on := OnNode{Node: l.node, State: Wrong, Text: sentence("", l.Reason, l.Message), Since: l.Since,
			Retries: l.Failures}
		on.Text = strings.TrimPrefix(on.Text, ": ")
		if l.State == "pending" {
			on.State = Making
			if on.Text == "" {
				on.Text = fmt.Sprintf("%d of %d frontends are programmed, the others wait for HNS", l.Programmed,
					l.Frontends)
			}
		}
		s.OnNodes = append(s.OnNodes, on)
	}

	// One problem for all nodes, so that a service has not as many as the cluster has nodes.
	if n := len(s.OnNodes); n > 0 {
		first := s.OnNodes[0]
		p := Problem{State: Making, Command: "porthole hns diff --node " + first.Node, Since: first.Since}
		for _, on := range s.OnNodes {
			p.State = worse(p.State, on.State)
		}
		p.Text = fmt.Sprintf("it is not programmed as wanted on %s: %s", first.Node, first.Text)
		if n > 1 {
			p.Text = fmt.Sprintf("it is not programmed as wanted on %d nodes, %s among them: %s", n, first.Node,
				first.Text)
		}
		s.Problems = append(s.Problems, p)
	}
	for _, p := range s.Problems {
		s.State = worse(s.State, p.State)
	}
}
