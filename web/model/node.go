package model

import (
	"fmt"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
)

// answerLimit is how old the answer of a node's program may be: the pages ask each second, `porthole web` without a
// page each ten.
const answerLimit = 25 * time.Second

// buildNode judges a node by its object and by what its programs report. object is nil for a node
// that has not registered, report for one whose programs were not asked.
func buildNode(name string, object *v1.Node, report *Report, now time.Time) Node {
	n := Node{Name: name, Addresses: []string{}, State: Right}
	if object == nil {
		n.State = Wrong
		n.Problems = []Problem{{State: Wrong, Text: "the node has not registered with the API server",
			Command: "porthole why node " + name}}
		return n
	}

	n.OS = object.Labels[v1.LabelOSStable]
	n.Build = object.Labels[v1.LabelWindowsBuild]
	n.PodCIDR = object.Spec.PodCIDR
	info := object.Status.NodeInfo
	n.OSImage = info.OSImage
	n.Kubelet = info.KubeletVersion
	n.Runtime = info.ContainerRuntimeVersion
	for _, a := range object.Status.Addresses {
		if _, err := netip.ParseAddr(a.Address); err == nil {
			n.Addresses = append(n.Addresses, a.Address)
		}
	}

	n.judgeConditions(object)
	if report != nil {
		n.addRoutes(report.Routes, now)
		n.addProxy(report.Proxy, now)
	}
	// A problem that names no command is looked into with `porthole why`.
	for i, p := range n.Problems {
		if p.Command == "" {
			n.Problems[i].Command = "porthole why node " + name
		}
		n.State = worse(n.State, p.State)
	}
	return n
}

// judgeConditions takes the node's conditions. Those of resources are good while they are false.
func (n *Node) judgeConditions(object *v1.Node) {
	found := false
	for _, c := range object.Status.Conditions {
		switch {
		case c.Type == v1.NodeReady:
			found, n.Ready = true, c.Status == v1.ConditionTrue
			if !n.Ready {
				n.problem(Wrong, sentence("the node is not ready", c.Reason, c.Message), c.LastTransitionTime.UTC())
			}
		case c.Status == v1.ConditionTrue:
			n.problem(Wrong, sentence(string(c.Type), c.Reason, c.Message), c.LastTransitionTime.UTC())
		}
	}
	if !found {
		n.problem(Making, "the kubelet has not said yet whether the node is ready", object.CreationTimestamp.UTC())
	}
	if object.Spec.Unschedulable {
		n.problem(Making, "the node takes no new pods (cordoned)", time.Time{})
	}
}

// problem adds one without a command; since may be zero.
func (n *Node) problem(state State, text string, since time.Time) {
	n.Problems = append(n.Problems, Problem{State: state, Text: text, Since: since})
}

// part says how old an answer is, and adds a problem if it is too old.
func part[T any](n *Node, who string, a Answer[T], now time.Time) Part {
	p := Part{Known: a.Last != nil, None: a.None}
	if a.None || a.Error == "" && (a.Last == nil || now.Sub(a.At) < answerLimit) {
		return p
	}
	p.Error, p.At = a.Error, a.At.UTC()
	if p.Error == "" {
		p.Error = "it was not asked since"
		return p // not the node's fault
	}
	n.problem(Unknown, sentence(who+" of the node does not answer", "", a.Error), a.Since.UTC())
	return p
}

// addRoutes adds what the agent of the pod network says. Without any answer so far only its state
// is known.
func (n *Node) addRoutes(a Answer[RoutesDocument], now time.Time) {
	n.Routes.Part = part(n, "porthole routes", a, now)
	if a.Last == nil {
		return
	}
	d := a.Last
	n.Routes.Mode = d.Mode
	n.Routes.Wanted = d.Wanted
	n.Routes.Present = d.Present
	n.Routes.Repairs = d.Repairs
	n.Peers = d.Peers

	covered := 0
	for _, r := range d.Routes {
		if r.State != "present" || r.Reason != "" {
			n.Routes.Wrong = append(n.Routes.Wrong,
				Route{Node: r.Node, To: r.Destination, NextHop: r.NextHop, State: r.State, Reason: r.Reason})
			covered++
		}
	}
	// Each wrong route has a line of its own among the problems, behind the others.
	for i, text := range d.Problems {
		state := Wrong
		if j := i - (len(d.Problems) - covered); j >= 0 && n.Routes.Wrong[j].State == "waiting" {
			state = Making
		}
		n.problem(state, limit(text), time.Time{})
	}
	if d.Error != "" && len(d.Problems) == 0 {
		n.problem(Wrong, sentence("the routes are not known", "", d.Error), time.Time{})
	}
	for _, p := range d.Peers {
		if !p.Up {
			n.problem(Wrong, sentence(fmt.Sprintf("no BGP session with %s (AS %d)", p.Address, p.AS), "", p.Reason),
				p.Since.UTC())
		}
	}
}

// addProxy adds what the service proxy says: of the services that failed the first is named.
func (n *Node) addProxy(a Answer[ProxyDocument], now time.Time) {
	n.Proxy.Part = part(n, "the service proxy", a, now)
	if a.Last == nil {
		return
	}
	d := a.Last
	n.Proxy.Wanted = d.Wanted
	n.Proxy.Programmed = d.Programmed
	n.Proxy.Services = d.Services
	if d.Error != "" {
		n.problem(Wrong, sentence("HNS cannot be read", "", d.Error), time.Time{})
	}
	diff := "porthole hns diff --node " + n.Name
	if count := d.Services["failed"]; count > 0 {
		p := Problem{State: Wrong, Text: plural(count, "service") + " could not be programmed: " + firstOf(d.Failed),
			Command: diff}
		if len(d.Failed) > 0 {
			p.Since = d.Failed[0].Since
		}
		n.Problems = append(n.Problems, p)
	}
	if count := d.Services["pending"]; count > 0 {
		n.Problems = append(n.Problems,
			Problem{State: Making, Text: plural(count, "service") + " waiting to be programmed", Command: diff})
	}
}

// firstOf words the first line of a list.
func firstOf(lines []ProxyLine) string {
	if len(lines) == 0 {
		return "the proxy does not say which"
	}
	return sentence(lines[0].Service, lines[0].Reason, lines[0].Message)
}

// worse returns the worse of two states. Unknown is worse than Making, as it may hide what is wrong.
func worse(a, b State) State {
	rank := map[State]int{Right: 0, Making: 1, Unknown: 2, Wrong: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}
