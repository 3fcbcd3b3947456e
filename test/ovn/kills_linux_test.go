package ovn

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	routes "porthole.dev/porthole/routes/ovn"
)

// faultWorld is a world in which programs end and things are changed.
type faultWorld struct{ *world }

// dying is a host on which the agent is killed after one change: it makes no other.
type dying struct {
	host
	made *atomic.Pointer[routes.Change]
}

func (d dying) Apply(ctx context.Context, c routes.Change) error {
	if !d.made.CompareAndSwap(nil, &c) {
		return errors.New("this agent was killed")
	}
	return d.host.Apply(ctx, c)
}

// killedEachStep lets agents of a node, one after the other, make one change each, until nothing is left to be done.
// It returns the changes.
func (w faultWorld) killedEachStep(n *node) (verbs []routes.Verb) {
	w.t.Helper()
	wait.NoError(w.t, 60*time.Second, "the node to be right although its agents are killed", func() error {
		var made atomic.Pointer[routes.Change]
		w.startAgentOn(n, func(h host) host { return dying{h, &made} })
		n.space.Do(func() error { n.agent.Sync(w.t.Context()); return nil })
		if c := made.Load(); c != nil {
			verbs = append(verbs, c.Verb)
			return errors.New("an agent was killed after: " + c.String())
		}
		if s := n.agent.Status(); !s.Complete() {
			return errors.New("not complete: " + strings.Join(s.Problems, "; "))
		}
		return nil
	})
	return verbs
}

// in runs a program in the namespace of a node.
func (w faultWorld) in(n *node, name string, args ...string) string {
	w.t.Helper()
	var out strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	w.must(platform.StartInNetns(n.space.Path, cmd))
	if err := cmd.Wait(); err != nil {
		w.t.Fatalf("%s %v: %v: %s", name, args, err, out.String())
	}
	return out.String()
}

// vsctl changes the database of a node's Open vSwitch as another program does.
func (w faultWorld) vsctl(n *node, args ...string) string {
	w.t.Helper()
	return w.in(n, "ovs-vsctl", append([]string{"--no-wait", "--db=unix:" + n.host.Socket()}, args...)...)
}

// volatile is what ovn-controller and the kernel write anew each time.
var volatile = regexp.MustCompile(
	`(ovn-installed-ts|ovn-startup-ts|ovn-nb-cfg[a-z-]*)="*[0-9]+"*|(valid|preferred)_lft \w+|^[0-9]+: `)

// state is the database of a node's Open vSwitch and the addresses and routes of the node, as text.
func (w faultWorld) state(n *node) string {
	w.t.Helper()
	var all []string
	add := func(text string) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(volatile.ReplaceAllString(line, "")); line != "" {
				all = append(all, line)
			}
		}
	}
	add(w.vsctl(n, "--format=csv", "--columns=external_ids", "list", "Open_vSwitch"))
	add(w.vsctl(n, "--format=csv", "--columns=name,datapath_type,fail_mode", "list", "Bridge"))
	add(w.vsctl(n, "--format=csv", "--columns=name,type,mac,external_ids,options,error", "list", "Interface"))
	for _, b := range strings.Fields(w.vsctl(n, "list-br")) {
		add(b + ": " + strings.Join(strings.Fields(w.vsctl(n, "list-ports", b)), " "))
	}
	add(w.in(n, "ip", "-o", "-4", "addr"))
	add(w.in(n, "ip", "-4", "route"))
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// foreign puts things of others on a node.
func (w faultWorld) foreign(n *node) {
	w.t.Helper()
	w.vsctl(n, "set", "open", ".", "external_ids:theirs=kept", "--", "add-br", "br-theirs", "--", "set", "bridge",
		"br-theirs", "datapath_type=netdev",
		"--", "add-port", "br-theirs", "theirs0", "--", "set", "interface", "theirs0", "type=internal")
	w.in(n, "ip", "route", "add", "172.31.0.0/24", "dev", "lo", "proto", "static")
}

// TestKilledAtEachStep kills the agent after each change of its plan: while the node is made, while it gets back what
// others deleted, and while its range changes. The node is right afterwards, things of others are there, and the next
// agent writes nothing.
func TestKilledAtEachStep(t *testing.T) {
	w := faultWorld{newWorld(t)}
	w.addNode("n2", "10.99.0.12", "10.244.2.0/24")
	n1 := w.addNode("n1", "10.99.0.11", "10.244.1.0/24")
	w.nodes["n2"].space.Do(func() error { w.nodes["n2"].agent.Sync(t.Context()); return nil })
	w.foreign(n1)
	expect := func(what string, got []routes.Verb, want ...routes.Verb) {
		t.Helper()
		slices.Sort(want)
		made := slices.Compact(slices.Sorted(slices.Values(got)))
		if !slices.Equal(made, want) {
			t.Errorf("%s: agents were killed after %q, want each of %q", what, got, want)
		}
		t.Logf("%s: agents were killed after %q", what, got)
		w.startAgent(n1)
		w.sync()
		if writes := n1.writes.Load(); writes != 0 {
			t.Errorf("%s: the agent after those that were killed made %d changes", what, writes)
		}
	}

	stop := w.keepSyncing("n2")
	expect("a new node", w.killedEachStep(n1), routes.SetKeys, routes.AddBridge, routes.Prepare, routes.MoveAddress,
		routes.AddPort, routes.Configure, routes.AddRoute)
	stop()
	w.sync()
	a, c := w.addPod("a", "n1"), w.addPod("c", "n2")
	w.listen(a.space, "a", a.addr)
	w.listen(c.space, "c", c.addr)
	w.reach(a.space, c.addr, 8080, "c")
	w.reach(n1.space, c.addr, 8080, "c")
	before := w.settledState(n1)

	w.in(n1, "ip", "route", "flush", "proto", "201")
	w.vsctl(n1, "remove", "open", ".", "external_ids", "ovn-ofctrl-wait-before-clear", "--", "del-port", "br-int",
		"k8s-n1")
	w.in(n1, "ip", "addr", "flush", "dev", "br-ex")
	expect("everything deleted", w.killedEachStep(n1), routes.SetKeys, routes.MoveAddress, routes.AddPort,
		routes.Configure, routes.AddRoute)
	w.sameState("everything deleted", n1, before)
	w.reach(n1.space, c.addr, 8080, "c")
	w.reach(a.space, c.addr, 8080, "c")

	w.must(second(w.cni("DEL", a)))
	w.api.remove(a.Pod)
	w.setRange("n1", "10.244.9.0/24", false)
	expect("another range", w.killedEachStep(n1), routes.SetMAC, routes.Configure, routes.AddRoute)
	b := w.addPod("b", "n1")
	w.listen(b.space, "b", b.addr)
	w.reach(n1.space, b.addr, 8080, "b")
	w.reach(c.space, b.addr, 8080, "b")
	if text := w.state(n1); !strings.Contains(text, "theirs=kept") || !strings.Contains(text, "br-theirs: theirs0") ||
		!strings.Contains(text, "172.31.0.0/24 dev lo proto static") {
		t.Errorf("things of others are gone:\n%s", text)
	}
}

// keepSyncing makes passes of a node's agent until stop: others wait for it.
func (w faultWorld) keepSyncing(name string) (stop func()) {
	n := w.nodes[name]
	return w.background(func(ctx context.Context) {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			n.space.Do(func() error { n.agent.Sync(ctx); return nil })
			<-tick.C
		}
	})
}

// settledState is the state of a node once it has not changed for a moment: ovn-controller writes into the database
// too.
func (w faultWorld) settledState(n *node) string {
	w.t.Helper()
	last := w.state(n)
	wait.NoError(w.t, 20*time.Second, "the state of "+n.name, func() error {
		now := w.state(n)
		if changed := difference(last, now); changed != "" || !strings.Contains(now, "ovn-installed=") {
			last = now
			return errors.New("it changes: " + changed)
		}
		return nil
	})
	return last
}

// sameState waits until the state of a node is that of before.
func (w faultWorld) sameState(what string, n *node, before string) {
	w.t.Helper()
	wait.NoError(w.t, 20*time.Second, what+": the state of before", func() error {
		if changed := difference(before, w.state(n)); changed != "" {
			return errors.New(changed)
		}
		return nil
	})
}

// controlSocket is where a node's ovn-controller takes commands.
func (w faultWorld) controlSocket(n *node) string {
	pid := w.daemons[n.name+"/ovn-controller"].cmd.Process.Pid
	return filepath.Join(n.host.Dir, fmt.Sprintf("ovn-controller.%d.ctl", pid))
}
