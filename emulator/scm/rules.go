package scm

import (
	"slices"
	"strings"
	"time"
)

// bootOrder returns the names of the automatic services, either the delayed ones or the others, each after those that
// it depends on and otherwise by name, because Windows defines no order. Dependencies that start on demand are left
// out: starting a service starts them.
func bootOrder(all map[string]Config, delayed bool) []string {
	var order []string
	seen := map[string]bool{}
	var visit func(key string)
	visit = func(key string) {
		c, ok := all[key]
		if !ok || seen[key] {
			return
		}
		seen[key] = true
		for _, d := range c.Dependencies {
			visit(fold(d))
		}
		if c.Start == StartAutomatic && c.Delayed == delayed {
			order = append(order, c.Name)
		}
	}

	keys := make([]string, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		visit(key)
	}
	return order
}

// circular reports whether a service would depend on itself, through others or directly.
func circular(all map[string]Config, name string) bool {
	seen := map[string]bool{}
	var reaches func(key string) bool
	reaches = func(key string) bool {
		for _, d := range all[key].Dependencies {
			d = fold(d)
			if d == fold(name) {
				return true
			}
			if !seen[d] {
				seen[d] = true
				if reaches(d) {
					return true
				}
			}
		}
		return false
	}
	return reaches(fold(name))
}

// shutdownOrder divides the services that accept the pre-shutdown control: first are those in the registry's order,
// which get it one after another, and rest are all others, which get it at the same time.
func shutdownOrder(accepting, order []string) (first, rest []string) {
	for _, name := range order {
		if i := slices.IndexFunc(accepting, func(s string) bool { return fold(s) == fold(name) }); i >= 0 {
			first = append(first, accepting[i])
		}
	}
	for _, name := range accepting {
		if !slices.Contains(first, name) {
			rest = append(rest, name)
		}
	}
	return first, rest
}

// failures counts how often a service failed.
type failures struct {
	count int
	last  time.Time
}

// next counts a failure at the time now and returns the recovery action; ok is false if there is none.
func (f *failures) next(rules Failure, now time.Time) (a Action, ok bool) {
	if rules.Reset != infinite && !f.last.IsZero() && now.Sub(f.last) >= time.Duration(rules.Reset)*time.Second {
		f.count = 0
	}
	f.count++
	f.last = now
	if len(rules.Actions) == 0 {
		return Action{}, false
	}
	a = rules.Actions[min(f.count, len(rules.Actions))-1]
	return a, a.Type != 0
}

// programs returns the paths that the program of a command line may have, each with the rest of the line. Without
// quotes Windows tries every beginning that ends at a space (CreateProcess): for C:\Program Files\x.exe it tries
// C:\Program first.
func programs(commandLine string) (candidates [][2]string) {
	line := strings.TrimLeft(commandLine, " \t")
	if rest, quoted := strings.CutPrefix(line, `"`); quoted {
		name, args, _ := strings.Cut(rest, `"`)
		return [][2]string{{name, strings.TrimLeft(args, " \t")}}
	}
	for i, r := range line {
		if r == ' ' || r == '\t' {
			candidates = append(candidates, [2]string{line[:i], strings.TrimLeft(line[i:], " \t")})
		}
	}
	return append(candidates, [2]string{line, ""})
}

// splitArgs splits arguments as a C program of Windows does (CommandLineToArgvW).
func splitArgs(line string) []string {
	var args []string
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		// Blanks outside of quotes part arguments. Before a quotation mark two backslashes are one.
		var b strings.Builder
		quoted, slashes := false, 0
		i := 0
		for ; i < len(line); i++ {
			c := line[i]
			if c == '\\' {
				slashes++
				continue
			}
			if c == '"' {
				b.WriteString(strings.Repeat(`\`, slashes/2))
				if slashes%2 == 1 {
					b.WriteByte('"')
				} else if quoted && i+1 < len(line) && line[i+1] == '"' {
					b.WriteByte('"')
					i++
				} else {
					quoted = !quoted
				}
				slashes = 0
				continue
			}

			b.WriteString(strings.Repeat(`\`, slashes))
			slashes = 0
			if (c == ' ' || c == '\t') && !quoted {
				break
			}
			b.WriteByte(c)
		}
		b.WriteString(strings.Repeat(`\`, slashes))
		args, line = append(args, b.String()), line[i:]
	}
	return args
}

// fold makes names of services comparable: Windows ignores their case.
func fold(name string) string { return strings.ToLower(name) }
