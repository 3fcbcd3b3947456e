package component

import (
	"fmt"
	"slices"
	"strings"
)

// Plan is components in the order in which they start. Make it with Order.
type Plan struct{ list []Component }

// Order returns the plan in which every component comes after those that it needs, and otherwise in the order of the
// list. It returns an error if a name is missing or used twice, if a need is not in the list, or if components need
// each other in a circle.
func Order(list []Component) (Plan, error) {
	known := map[string]bool{}
	for _, c := range list {
		if c.Name == "" || known[c.Name] {
			return Plan{}, fmt.Errorf("ordering components: the name %q is empty or used twice", c.Name)
		}
		known[c.Name] = true
	}
	for _, c := range list {
		for _, need := range c.Needs {
			if !known[need] {
				return Plan{}, fmt.Errorf("ordering components: %s needs %s, which is not in the list", c.Name, need)
			}
		}
	}

	placed := map[string]bool{}
	var p Plan
	for rest := slices.Clone(list); len(rest) > 0; {
		at := slices.IndexFunc(rest, func(c Component) bool {
			return !slices.ContainsFunc(c.Needs, func(need string) bool { return !placed[need] })
		})
		if at < 0 {
			return Plan{}, fmt.Errorf("ordering components: these need each other in a circle: %s", circle(rest))
		}
		p.list = append(p.list, rest[at])
		placed[rest[at].Name] = true
		rest = slices.Delete(rest, at, at+1)
	}
	return p, nil
}

// circle names the components of one circle among those that cannot be placed. Each of them needs another one of them.
func circle(rest []Component) string {
	byName := map[string]Component{}
	for _, c := range rest {
		byName[c.Name] = c
	}
	path := []string{rest[0].Name}
	for {
		needs := byName[path[len(path)-1]].Needs
		next := needs[slices.IndexFunc(needs, func(n string) bool { return byName[n].Name != "" })]
		if at := slices.Index(path, next); at >= 0 {
			return strings.Join(append(path[at:], next), " > ")
		}
		path = append(path, next)
	}
}

// String lists the components in the order in which they start, one a line, each with what it needs.
func (p Plan) String() string {
	var b strings.Builder
	for _, c := range p.list {
		b.WriteString(c.Name)
		if len(c.Needs) > 0 {
			b.WriteString(": needs " + strings.Join(c.Needs, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}
