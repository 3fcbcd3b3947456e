package model

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// whyNode follows a node from its registration to its services.
func whyNode(f *Facts, name string, now time.Time) Chain {
	var object *v1.Node
	for _, n := range f.Nodes {
		if n.Name == name {
			object = n
		}
	}
	c := Chain{Kind: "node", Name: name, Seen: happenings(f, "Node", "", name, "")}
	// Without an object there is nothing to ask.
	if object == nil {
		c.Steps = []Step{{Name: "registered", State: Wrong,
			Text: "the API server has no such node: its kubelet has not reached the server, or was refused",
			Do:   []string{"porthole status", "on the node: the log of its kubelet"}}}
		return c.finish("")
	}
	report, asked := f.Reports[name]
	// The node is judged without its programs, which have steps of their own.
	n := buildNode(name, object, nil, now)

	c.Steps = []Step{{Name: "registered", State: Right, To: object.CreationTimestamp.UTC()}, nodeReady(&n, object)}
	if !asked {
		c.Steps = append(c.Steps, Step{Name: "its programs answer", State: Unknown, Text: "they were not asked yet"})
		return c.finish("it is ready")
	}
	c.Steps = append(c.Steps,
		partStep("pod network and routes", &report.Routes, "porthole routes", now,
			func(n *Node) { n.addRoutes(report.Routes, now) }))
	c.Steps = append(c.Steps,
		partStep("services", &report.Proxy, "the service proxy", now, func(n *Node) { n.addProxy(report.Proxy, now) }))
	// Steps of programs that are not right get a command that says more.
	for i := range c.Steps[2:] {
		if s := &c.Steps[2+i]; s.State != Right {
			s.Do = []string{"porthole path " + name + " ADDRESS"}
			if s.Name == "services" {
				s.Do = []string{"porthole hns diff --node " + name}
			}
		}
	}
	return c.finish("it is ready, with its routes and services")
}

// nodeReady is the step of the Node's condition and of its other conditions.
func nodeReady(n *Node, object *v1.Node) Step {
	s := Step{Name: "the kubelet says it is ready", State: Right}
	for _, c := range object.Status.Conditions {
		if c.Type == v1.NodeReady {
			s.To = c.LastTransitionTime.UTC()
		}
	}
	for _, p := range n.Problems {
		if s.State == Right {
			s.Text = p.Text
		} else {
			s.Text += "; " + p.Text
		}
		s.State = worse(s.State, p.State)
	}
	if s.State != Right {
		s.From, s.To = s.To, time.Time{}
		s.Do = []string{"kubectl describe node " + n.Name,
			"on the node: the log of its kubelet, and of its container runtime"}
	}
	return s
}

// partStep is a step from the problems that a part of the node reports.
func partStep[T any](name string, a *Answer[T], who string, now time.Time, add func(*Node)) Step {
	s := Step{Name: name, State: Right}
	if a.None {
		s.Text = "another program than Porthole's keeps them, so this is not known"
		return s
	}
	// add puts the problems of this part alone into an empty node.
	var n Node
	add(&n)
	if a.Last == nil && a.Error == "" {
		return Step{Name: name, State: Unknown, Text: who + " was not asked yet"}
	}

	for _, p := range n.Problems {
		if s.Text != "" {
			s.Text += "; "
		}
		s.Text += p.Text
		s.State = worse(s.State, p.State)
		if s.From.IsZero() {
			s.From = p.Since
		}
	}

	// What is right is shown with its numbers.
	if s.State == Right && n.Routes.Known {
		s.Text = fmt.Sprintf("%d of %d routes (%s)", n.Routes.Present, n.Routes.Wanted, n.Routes.Mode)
	} else if s.State == Right && n.Proxy.Known {
		s.Text = fmt.Sprintf("%d of %d frontends", n.Proxy.Programmed, n.Proxy.Wanted)
	}
	return s
}

// whyService follows a service from its selector to what the nodes have programmed.
func whyService(f *Facts, key string, now time.Time) Chain {
	var s Service
	for _, one := range Build(f, now).Services {
		if one.Key == key {
			s = one
		}
	}
	c := Chain{Kind: "service", Name: key, Seen: happenings(f, "Service", s.Namespace, s.Name, "")}
	c.Steps = append(c.Steps, podsBehind(s), programmedOn(f.Reports, s.OnNodes))
	return c.finish("it has backends and is programmed as wanted")
}

// podsBehind is the step of a service's endpoints.
func podsBehind(s Service) Step {
	if s.Ready > 0 {
		return Step{Name: "pods behind it", State: Right,
			Text: fmt.Sprintf("%d ready, %d not ready, %d ending", s.Ready, s.Unready, s.Ending)}
	}

	step := Step{Name: "pods behind it", State: Making, Text: "nothing is behind it"}
	for _, p := range s.Problems {
		if p.Command == "porthole why service "+s.Key {
			step.Text = p.Text
		}
	}
	step.Do = []string{fmt.Sprintf("kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s -o wide",
		s.Namespace, s.Name)}
	for _, p := range s.Pods[:min(3, len(s.Pods))] {
		step.Do = append(step.Do, "porthole why pod "+p)
	}
	return step
}

// programmedOn is the step of what the nodes' service proxies have programmed. wrong are the nodes that do not have the
// service as wanted.
func programmedOn(reports map[string]Report, wrong []OnNode) Step {
	step := Step{Name: "programmed on the nodes", State: Right}
	// Nodes that answered and have nothing to say have the service as wanted.
	if len(wrong) == 0 {
		programmed, silent := 0, 0
		for _, r := range reports {
			switch {
			case r.Proxy.None:
			case r.Proxy.Error != "":
				silent++
			default:
				programmed++
			}
		}
		step.Text = fmt.Sprintf("as wanted on %s with Porthole's service proxy", plural(programmed, "node"))
		if silent > 0 {
			step.State = Unknown
			step.Text = plural(silent, "node") + " did not answer"
		}
		return step
	}

	// The oldest problem says since when.
	var texts []string
	for _, on := range wrong {
		step.State = worse(step.State, on.State)
		texts = append(texts, on.Node+": "+on.Text)
		if step.From.IsZero() || on.Since.Before(step.From) {
			step.From = on.Since
		}
		if on.Retries > 0 {
			step.Tried = plural(on.Retries, "time") + " on " + on.Node
		}
		step.Do = append(step.Do, "porthole hns diff --node "+on.Node)
	}
	step.Text = limit(strings.Join(texts, "; "))
	return step
}
