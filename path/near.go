package path

import (
	"cmp"
	"slices"
	"strings"

	"porthole.dev/porthole/internal/similar"
)

// nearest is how many names an error suggests.
const nearest = 3

// near suggests names that are like one that nothing has; "" if none is. Services are among them only for a
// destination.
func (f *Facts) near(name string, services bool) string {
	type candidate struct {
		name     string
		distance int
	}
	// Names are compared without their namespaces.
	short := name[strings.LastIndexByte(name, '/')+1:]
	var list []candidate
	add := func(full string) {
		last := full[strings.LastIndexByte(full, '/')+1:]
		d := similar.Edits(short, last)
		if strings.HasPrefix(last, short+"-") { // a Deployment's name for that of its pod
			d = 1
		}
		// Up to a third of the letters, at least two, may differ.
		if d <= max(2, len(short)/3) {
			list = append(list, candidate{full, d})
		}
	}
	for _, n := range f.Cluster.Nodes {
		add(n.Name)
	}
	for _, p := range f.Cluster.Pods {
		add(p.Name)
	}
	for _, s := range f.Cluster.Services {
		if services {
			add(s.Name)
		}
	}

	slices.SortStableFunc(list,
		func(a, b candidate) int { return cmp.Or(a.distance-b.distance, strings.Compare(a.name, b.name)) })
	list = slices.CompactFunc(list, func(a, b candidate) bool { return a.name == b.name })
	var names []string
	for _, c := range list[:min(len(list), nearest)] {
		names = append(names, c.name)
	}
	if len(names) == 0 {
		return "; pods outside of namespace \"default\" are NAMESPACE/NAME"
	}
	return "; did you mean " + strings.Join(names, ", or ") + "?"
}
