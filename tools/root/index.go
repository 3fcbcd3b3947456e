package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// pkg is a package of Debian, as an index lists it and root.lock keeps it.
type pkg struct {
	name, version string
	path          string // below the mirror
	size          int64  // bytes
	sha256        string // hexadecimal
	needs         [][]string
	provides      []string
}

// parseIndex reads an index of packages (deb822(5)): paragraphs of fields, divided by empty lines.
func parseIndex(r io.Reader) (map[string]*pkg, error) {
	all := map[string]*pkg{}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	now := &pkg{}
	end := func() {
		if now.name != "" {
			all[now.name] = now
		}
		now = &pkg{}
	}

	// A line that goes on from the one before has no field of its own, and is left out.
	for scanner.Scan() {
		field, value, ok := strings.Cut(scanner.Text(), ": ")
		if !ok {
			if scanner.Text() == "" {
				end()
			}
			continue
		}
		if err := now.set(field, value); err != nil {
			return nil, fmt.Errorf("package %s of the index: %w", now.name, err)
		}
	}
	end()
	return all, scanner.Err()
}

// set takes a field of the paragraph that is used here, and passes over others.
func (p *pkg) set(field, value string) (err error) {
	switch field {
	case "Package":
		p.name = value
	case "Version":
		p.version = value
	case "Filename":
		p.path = value
	case "SHA256":
		p.sha256 = value
	case "Size":
		p.size, err = strconv.ParseInt(value, 10, 64)
	case "Depends", "Pre-Depends":
		for one := range strings.SplitSeq(value, ",") {
			p.needs = append(p.needs, names(one, "|"))
		}
	case "Provides":
		p.provides = names(value, ",")
	}
	return err
}

// names are the names of a list of packages, without versions and architectures.
func names(list, separator string) (out []string) {
	for one := range strings.SplitSeq(list, separator) {
		name, _, _ := strings.Cut(strings.TrimSpace(one), " ")
		name, _, _ = strings.Cut(name, ":")
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// closure returns the wanted packages with those that they depend on, by name. Of alternatives the first is taken that
// the index has, unless another one is there already or excluded. A package that an alternative only names as what it
// provides counts as that.
func closure(all map[string]*pkg, wanted, excluded []string) ([]*pkg, error) {
	provider := map[string][]string{}
	for _, name := range sortedKeys(all) {
		for _, what := range all[name].provides {
			provider[what] = append(provider[what], name)
		}
	}
	taken := map[string]*pkg{}
	next := slices.Clone(wanted)
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if taken[name] != nil || slices.Contains(excluded, name) {
			continue
		}
		p := all[name]
		if p == nil {
			return nil, fmt.Errorf("the index has no package %s", name)
		}
		taken[name] = p
		for _, alternatives := range p.needs {
			found, err := (choices{all, provider, taken, excluded}).choose(alternatives)
			if err != nil {
				return nil, fmt.Errorf("package %s: %w", name, err)
			}
			next = append(next, found)
		}
	}

	var list []*pkg
	for _, name := range sortedKeys(taken) {
		list = append(list, taken[name])
	}
	return list, nil
}

// choices are what one of some alternatives is chosen by.
type choices struct {
	all      map[string]*pkg
	provider map[string][]string // names of packages, by what they provide
	taken    map[string]*pkg
	excluded []string
}

// settled reports whether nothing has to be added for the name.
func (c choices) settled(name string) bool {
	return c.taken[name] != nil || slices.Contains(c.excluded, name)
}

// choose prefers an alternative that is settled, then the first one that the index has.
func (c choices) choose(alternatives []string) (string, error) {
	for _, name := range alternatives {
		if c.settled(name) {
			return name, nil
		}
		if i := slices.IndexFunc(c.provider[name], c.settled); i >= 0 {
			return c.provider[name][i], nil
		}
	}
	for _, name := range alternatives {
		if c.all[name] != nil {
			return name, nil
		}
		if by := c.provider[name]; len(by) > 0 {
			return by[0], nil
		}
	}
	return "", fmt.Errorf("the index has none of what it needs: %s", strings.Join(alternatives, ", "))
}

// sortedKeys gives the same order at each run.
func sortedKeys(m map[string]*pkg) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
