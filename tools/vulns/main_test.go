package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const config = `{"config":{"protocol_version":"v1.0.0"}}`
	found := func(id, module, pkg, fixed string) string {
		return `{"finding":{"osv":"` + id + `","fixed_version":"` + fixed + `","trace":[{"module":"` + module +
			`","version":"v1.0.0","package":"` + pkg + `"}]}}` + "\n"
	}
	for name, c := range map[string]struct {
		findings, known, out, err string
	}{
		"nothing": {findings: config},
		"one": {config + found("GO-1", "m", "m/p", "v1.1.0"), "", "",
			"GO-1: m/p of m v1.0.0, fixed in v1.1.0"},
		"one without a fix": {config + found("GO-1", "m", "m/p", ""), "", "", "not fixed yet"},
		"one that is known": {config + found("GO-1", "m", "m/p", ""), "# text\n\nGO-1 no peer can send it\n", "",
			""},
		"known without reason": {config + found("GO-1", "m", "m/p", ""), "GO-1\n", "", "without a reason"},
		"known and gone":       {config, "GO-1 no peer can send it\n", "", "remove it"},
		"a module only":        {findings: config + found("GO-1", "m", "", "")},
		"Go's own":             {config + found("GO-1", "stdlib", "net/http", "v1.26.9"), "", "newer Go: GO-1", ""},
		"no findings at all":   {"", "", "", "has not run"},
		"no JSON":              {"error", "", "", "reading"},
	} {
		var out strings.Builder
		err := run(&out, strings.NewReader(c.findings), strings.NewReader(c.known))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if !strings.Contains(out.String(), c.out) {
			t.Errorf("%s: printed %q, want %q", name, out.String(), c.out)
		}
	}
}
