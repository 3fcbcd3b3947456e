package model

import (
	"cmp"
	"slices"
	"time"
)

// Change is something that became right, or stopped being so.
type Change struct {
	At   time.Time `json:"at"`
	Key  string    `json:"key"` // as in Document
	From State     `json:"from,omitempty"`
	To   State     `json:"to,omitempty"` // empty: it is gone
	Text string    `json:"text,omitempty"`
	// Lasted is for how long it was as it was before, in seconds; 0 if that is not known.
	Lasted float64 `json:"lasted,omitempty"`
}

// states returns the state of each object, with the reason.
func (s *Snapshot) states() map[string]Problem {
	out := map[string]Problem{}
	worst := func(state State, list []Problem) Problem {
		for _, p := range list {
			if p.State == state {
				return p
			}
		}
		return Problem{State: state}
	}
	for _, n := range s.Nodes {
		out["node/"+n.Name] = worst(n.State, n.Problems)
	}
	for _, v := range s.Services {
		out["service/"+v.Key] = worst(v.State, v.Problems)
	}
	for _, p := range s.Pods {
		if p.Problem != nil {
			out["pod/"+p.Key] = *p.Problem
		} else {
			out["pod/"+p.Key] = Problem{State: p.State}
		}
	}
	return out
}

// Changes returns what changed its state between two snapshots. since says when each object entered its state, and is
// brought up to date.
func Changes(before, after *Snapshot, since map[string]time.Time, now time.Time) (out []Change) {
	old, current := before.states(), after.states()
	for key, p := range current {
		was, known := old[key]
		if known && was.State == p.State {
			continue
		}
		c := Change{At: now, Key: key, From: was.State, To: p.State, Text: p.Text}
		if at, noted := since[key]; noted {
			c.Lasted = now.Sub(at).Seconds()
		}
		since[key] = now
		out = append(out, c)
	}
	for key, was := range old {
		if _, there := current[key]; !there {
			out = append(out, Change{At: now, Key: key, From: was.State})
			delete(since, key)
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Key, b.Key) })
	return out
}
