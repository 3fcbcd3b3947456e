package model

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Build reduces facts to a snapshot. Its lists are sorted, so that equal facts give equal snapshots.
func Build(f *Facts, now time.Time) Snapshot {
	s := Snapshot{Cluster: Cluster{Name: f.Name, Local: f.Local, API: f.API, Modes: []string{}}}
	s.buildNodes(f, now)
	for _, n := range s.Nodes {
		if m := n.Routes.Mode; m != "" && !slices.Contains(s.Cluster.Modes, m) {
			s.Cluster.Modes = append(s.Cluster.Modes, m)
		}
	}
	slices.Sort(s.Cluster.Modes)

	warnings := lastWarnings(f)
	s.Pods = make([]Pod, 0, len(f.Pods))
	for _, p := range f.Pods {
		s.Pods = append(s.Pods, buildPod(p, warnings[p.Namespace+"/"+p.Name], now))
	}
	slices.SortFunc(s.Pods, func(a, b Pod) int { return cmp.Compare(a.Key, b.Key) })

	lines := linesByService(f)
	endpoints := slicesByService(f)
	for _, svc := range f.Services {
		key := svc.Namespace + "/" + svc.Name
		s.Services = append(s.Services, buildService(svc, endpoints[key], lines[key]))
	}
	slices.SortFunc(s.Services, func(a, b Service) int { return cmp.Compare(a.Key, b.Key) })
	return s
}

// buildNodes adds the Node objects, and the nodes that are expected and have not registered.
func (s *Snapshot) buildNodes(f *Facts, now time.Time) {
	seen := map[string]bool{}
	add := func(name string, object *v1.Node) {
		var report *Report
		if r, asked := f.Reports[name]; asked {
			report = &r
		}
		seen[name] = true
		s.Nodes = append(s.Nodes, buildNode(name, object, report, now))
	}

	for _, n := range f.Nodes {
		add(n.Name, n)
	}
	for _, name := range f.Expected {
		// Before the API has answered once, nothing is known of what has registered.
		if !seen[name] && (f.API.Error == "" || len(f.Nodes) > 0) {
			add(name, nil)
		}
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}

// lastWarnings returns the newest warning of each pod, by namespace/name. A warning of an older pod of the same name
// does not count.
func lastWarnings(f *Facts) map[string]*v1.Event {
	uids := make(map[string]string, len(f.Pods))
	for _, p := range f.Pods {
		uids[p.Namespace+"/"+p.Name] = string(p.UID)
	}
	last := map[string]*v1.Event{}
	for _, e := range f.Events {
		key := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
		if e.Type != v1.EventTypeWarning || e.InvolvedObject.Kind != "Pod" ||
			uids[key] != string(e.InvolvedObject.UID) {
			continue
		}
		if old := last[key]; old == nil || eventTime(old).Before(eventTime(e)) {
			last[key] = e
		}
	}
	return last
}

// eventTime returns when an event last happened. Events of the newer API have eventTime only.
func eventTime(e *v1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.UTC()
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.UTC()
	case !e.EventTime.IsZero():
		return e.EventTime.UTC()
	}
	return e.CreationTimestamp.UTC()
}

// slicesByService has the slices of each service by NAMESPACE/NAME. Slices without the label of a
// service are under a name that no service has.
func slicesByService(f *Facts) map[string][]*discoveryv1.EndpointSlice {
	out := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range f.Slices {
		key := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		out[key] = append(out[key], s)
	}
	return out
}

// linesByService collects what nodes say of services that are not as wanted, ordered by node.
func linesByService(f *Facts) map[string][]nodeLine {
	out := map[string][]nodeLine{}
	for node, r := range f.Reports {
		if r.Proxy.Last == nil {
			continue
		}
		for _, list := range [][]ProxyLine{r.Proxy.Last.Failed, r.Proxy.Last.Pending, r.Proxy.Last.Unserved} {
			for _, l := range list {
				out[l.Service] = append(out[l.Service], nodeLine{node, l})
			}
		}
	}
	for _, lines := range out {
		slices.SortStableFunc(lines, func(a, b nodeLine) int { return cmp.Compare(a.node, b.node) })
	}
	return out
}
