package registration

import (
	"cmp"
	"fmt"
	"slices"
)

// identity tells a socket from one that takes its place under the same name.
type identity string

// change is a socket that appeared or went away.
type change struct {
	path string
	gone bool
}

func (c change) String() string {
	if c.gone {
		return "gone " + c.path
	}
	return "new " + c.path
}

// plan returns what changed between two readings of the folder. A socket that was replaced goes before it appears. The
// order is that of the paths, so that the result is always the same.
func plan(before, after map[string]identity) (changes []change) {
	for path, id := range before {
		if now, there := after[path]; !there || now != id {
			changes = append(changes, change{path: path, gone: true})
		}
	}
	for path, id := range after {
		if was, there := before[path]; !there || was != id {
			changes = append(changes, change{path: path})
		}
	}

	slices.SortFunc(changes, func(a, b change) int {
		if c := cmp.Compare(a.path, b.path); c != 0 {
			return c
		}
		if a.gone {
			return -1
		}
		return 1
	})
	return changes
}

// check returns why a plugin cannot be taken in, nil if it can.
func check(p Plugin) error {
	switch {
	case p.Name == "":
		return fmt.Errorf("a plugin of type %q has no name", p.Type)
	case p.Endpoint == "":
		return fmt.Errorf("plugin %s has no endpoint", p.Name)
	case len(p.Versions) == 0:
		return fmt.Errorf("plugin %s supports no version", p.Name)
	}
	return nil
}
