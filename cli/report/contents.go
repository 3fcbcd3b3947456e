package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cli/origin"
	"porthole.dev/porthole/cli/version"
	"porthole.dev/porthole/cli/why"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// fromFacts returns what is known of the API's objects: a document that shows all, and the reason chain of what is not
// right.
func fromFacts(f *model.Facts, now time.Time) ([]entry, error) {
	snapshot := model.Build(f, now)
	document, err := model.Encode(snapshot, nil)
	if err != nil {
		return nil, err
	}
	all, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		return nil, err
	}

	var chains bytes.Buffer
	add := func(kind, name string, state model.State) error {
		if state == model.Right {
			return nil
		}
		c, err := model.Why(f, kind, name, now)
		if err != nil {
			return err
		}
		if err := why.Print(&chains, c, now); err != nil {
			return err
		}
		chains.WriteString("\n")
		return nil
	}
	for _, n := range snapshot.Nodes {
		err = errors.Join(err, add("node", n.Name, n.State))
	}
	for _, s := range snapshot.Services {
		err = errors.Join(err, add("service", s.Key, s.State))
	}
	for _, p := range snapshot.Pods {
		err = errors.Join(err, add("pod", p.Key, p.State))
	}
	return []entry{
		{name: "about.txt", what: "when, and by which version",
			data: fmt.Appendf(nil, "made %s by porthole %s\n", now.UTC().Format(time.RFC3339), version.Release())},
		{name: "cluster.json", what: "nodes, pods and services, as the page shows them", data: all},
		{name: "why.txt", what: "what is not right, step by step", data: chains.Bytes()},
		{name: "events.txt", what: "events", data: events(f)},
	}, err
}

func events(f *model.Facts) []byte {
	var lines []string
	for _, e := range f.Events {
		o := e.InvolvedObject
		at := e.LastTimestamp
		if at.IsZero() {
			at = e.CreationTimestamp
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s/%s %s: %s (%d)", at.UTC().Format(time.RFC3339), e.Type, o.Kind,
			o.Namespace, o.Name, e.Reason, strings.Join(strings.Fields(e.Message), " "), e.Count))
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n") + "\n")
}

// fromNodes asks each node's programs for what they know.
func fromNodes(ctx context.Context, o *origin.Origin, f *model.Facts) (entries []entry) {
	for _, n := range f.Nodes {
		ref := model.NodeRef{Name: n.Name, OS: n.Labels[v1.LabelOSStable]}
		for _, q := range []struct {
			program    collect.Program
			path, what string
		}{
			{collect.Routes, "/status", "its routes"},
			{collect.Proxy, "/status", "its services"},
			{collect.Proxy, "/diff", "what its HNS lacks"},
			{collect.Proxy, "/metrics", "what its service proxy counts"},
		} {
			data, err := o.Nodes.Ask(ctx, ref, q.program, q.path)
			if errors.Is(err, collect.ErrNone) {
				continue
			}
			if err != nil {
				data = []byte("it did not answer: " + err.Error() + "\n")
			}
			entries = append(entries,
				entry{name: fmt.Sprintf("nodes/%s/%s%s", n.Name, q.program, strings.ReplaceAll(q.path, "/", "-")),
					what: q.what, data: data})
		}
	}
	return entries
}
