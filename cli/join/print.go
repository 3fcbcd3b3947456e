package join

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/join/step"
	node "porthole.dev/porthole/node/join"
)

// printer shows a run: a line for each part of it, or with JSON one document at the end.
type printer struct {
	out, problems io.Writer
	json          bool
	start         time.Time
}

// newPrinter takes the time from now on; the lines show seconds since then.
func newPrinter(out, problems io.Writer, json bool) *printer {
	return &printer{out: out, problems: problems, json: json, start: time.Now()}
}

// line prints a line with its time, and nothing with -o json.
func (p *printer) line(format string, args ...any) {
	if !p.json {
		fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
	}
}

// more prints a line that belongs to the one before it.
func (p *printer) more(format string, args ...any) {
	if !p.json {
		fmt.Fprintf(p.out, "        "+format+"\n", args...)
	}
}

// Checked shows how many checks passed, and each that did not.
func (p *printer) Checked(list []step.Check) {
	count := map[string]int{}
	for _, c := range list {
		count[c.Result]++
	}
	text := fmt.Sprintf("checks: %d passed", count[preflight.Pass])
	for _, level := range []string{preflight.Warning, preflight.Ignored, preflight.Error, preflight.Reboot} {
		if n := count[level]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, plural(level, n))
		}
	}
	p.line("%s", text)
	for _, c := range list {
		if c.Result != preflight.Pass {
			p.more("%s: %s", c.Result, preflight.Line(c))
		}
	}
}

// plural makes a count's word plural; "ignored" stays as it is.
func plural(word string, n int) string {
	if n == 1 || word == preflight.Ignored {
		return word
	}
	return word + "s"
}

// planned shows what this node can do in the cluster's network, and how.
func (p *printer) planned(network string, list []step.Topology) {
	if len(list) == 0 {
		return
	}
	if network == "" {
		network = "none that is known by name"
	}
	p.line("the cluster's network: %s. This machine can have:", network)
	for _, t := range list {
		p.more("%-7s %-12s  %s", t.Result, t.Name, t.Why)
		if t.Do != "" {
			p.more("%-7s %-12s  → %s", "", "", t.Do)
		}
	}
}

// Step shows a step that changed something.
func (p *printer) Step(r step.Result) {
	switch {
	case r.Action == step.None && r.Result != "failed":
	case r.Result == "planned":
		for _, line := range strings.Split(r.Op.String(), "\n") {
			p.more("%s", line)
		}
	case r.Result == "done":
		p.line("%s %s", r.ID, past[r.Action])
	}
}

// past are the words for steps that were done.
var past = map[step.Action]string{step.Create: "made", step.Change: "changed", step.Delete: "removed"}

// Say shows a text at once.
func (p *printer) Say(text string) { p.line("%s", text) }

// end shows how the run ended.
func (p *printer) end(ctx context.Context, r step.Report, o node.Request) error {
	// With JSON the report is the whole output, however the run ended.
	if p.json {
		text, err := r.JSON()
		if err != nil {
			return err
		}
		_, err = p.out.Write(text)
		return err
	}

	p.planned(r.Network, r.Topologies)
	switch r.Outcome {
	case step.Joined:
		text := fmt.Sprintf("node %s is Ready", r.Node)
		if o.Wait != node.WaitReady {
			text = fmt.Sprintf("node %s is installed", r.Node)
		}
		if more := node.Describe(ctx, o); more != "" {
			text += " (" + more + ")"
		}
		p.line("%s", text)
	case step.Unchanged:
		p.line("nothing to do: this machine is node %s of %s", r.Node, r.Server)
	case step.Planned:
		p.line("nothing was changed")
	default:
		fmt.Fprintf(p.problems, "porthole: %s\n", r.Error)
	}
	return nil
}
