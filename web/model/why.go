package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Chain is why one object is as it is: what has to happen for it, in order.
type Chain struct {
	Kind  string `json:"kind"` // pod, service, node
	Name  string `json:"name"` // namespace/name, or that of a node
	State State  `json:"state"`
	// Text is the answer in one sentence.
	Text  string `json:"text"`
	Steps []Step `json:"steps"`
	// Seen are the events about it, oldest first.
	Seen []Happening `json:"seen,omitempty"`
}

// Step is one thing that has to happen.
type Step struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Waits: an earlier step is not done, so that this one has not begun.
	Waits bool   `json:"waits,omitempty"`
	Text  string `json:"text,omitempty"`
	// From and To are when it began and was done; zero if that is not known, or not yet.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Tried is what was attempted, how often and when last. Do are commands that show more or help.
	Tried string   `json:"tried,omitempty"`
	Do    []string `json:"do,omitempty"`
}

// Happening is an event.
type Happening struct {
	At      time.Time `json:"at"`
	Warning bool      `json:"warning,omitempty"`
	Reason  string    `json:"reason"`
	Text    string    `json:"text"`
	Count   int32     `json:"count,omitempty"`
	Who     string    `json:"who,omitempty"`
}

// UnknownName says that there is no such object.
type UnknownName struct{ Kind, Name string }

// The error names what was asked for, so that a typing error is seen.
func (u *UnknownName) Error() string {
	if u.Kind == "" {
		return fmt.Sprintf("there is no pod, service or node %s", u.Name)
	}
	return fmt.Sprintf("there is no %s %s", u.Kind, u.Name)
}

// Why returns the reason chain of an object. Kind may be empty: then the name of a node, a pod or a service is looked
// for, in this order. Names without a namespace are in "default".
func Why(f *Facts, kind, name string, now time.Time) (Chain, error) {
	full := name
	if !strings.Contains(name, "/") {
		full = "default/" + name
	}

	// Names without a kind may fit several objects; nodes come first.
	if kind == "" || kind == "node" {
		if known := slices.ContainsFunc(f.Nodes, func(n *v1.Node) bool { return n.Name == name }); known ||
			slices.Contains(f.Expected, name) {
			return whyNode(f, name, now), nil
		}
	}
	if kind == "" || kind == "pod" {
		for _, p := range f.Pods {
			if p.Namespace+"/"+p.Name == full {
				return whyPod(f, p, now), nil
			}
		}
	}
	if kind == "" || kind == "service" {
		for _, s := range f.Services {
			if s.Namespace+"/"+s.Name == full {
				return whyService(f, full, now), nil
			}
		}
	}

	// The name in the error has the namespace in which it was looked for.
	if kind != "" && kind != "node" {
		name = full
	}
	return Chain{}, &UnknownName{kind, name}
}

// finish marks the steps behind the first that is not done, and takes the chain's state and text from that one.
func (c *Chain) finish(right string) Chain {
	c.State, c.Text = Right, right
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.State == Right {
			continue
		}
		if c.State == Right {
			c.State = s.State
			c.Text = s.Name + ": " + s.Text
			continue
		}
		if s.State == Making && s.Text == "" {
			s.Waits = true
		}
		c.State = worse(c.State, s.State)
	}
	return *c
}

// happenings are the events about one object, the oldest first. An empty uid fits every object of
// the name.
func happenings(f *Facts, kind, namespace, name, uid string) (out []Happening) {
	for _, e := range f.Events {
		o := &e.InvolvedObject
		if o.Kind != kind || o.Namespace != namespace || o.Name != name || uid != "" && string(o.UID) != uid {
			continue
		}
		who := e.Source.Component
		if e.Source.Host != "" {
			who += " on " + e.Source.Host
		}
		out = append(out, Happening{At: eventTime(e), Warning: e.Type == v1.EventTypeWarning, Reason: e.Reason,
			Text: limit(e.Message), Count: e.Count, Who: who})
	}
	slices.SortStableFunc(out, func(a, b Happening) int { return a.At.Compare(b.At) })
	return out
}
