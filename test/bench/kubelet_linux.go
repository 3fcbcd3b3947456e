package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
)

// All objects of the group are in one namespace, which ends with the World.
const (
	namespace    = "bench"
	upstreamIs   = "upstream kubelet v1.36.3"
	kubeletLimit = 15 * time.Minute // for the whole group
)

// The sides that are compared: the calls of the runtime that every kubelet must make and nothing else, and two
// kubelets.
const (
	bare = "floor"
	ours = "ours"
	peer = "upstream"
)

// kubeletPart is something that is measured with each side in turn.
type kubeletPart struct {
	name string
	// rounds of all passes together; 0 is one, in the last pass.
	rounds  int
	measure func(context.Context, *side, int) error
	// floor measures the same without a kubelet; nil when there is nothing to measure.
	floor func(context.Context, *side, int) error
	lines []line
}

// line is one figure of a part.
// The samples of key are those that measure and floor add under it; name is what is printed.
type line struct {
	key, name, unit string
	// target is what ours must not exceed, given the floor's and the peer's median; nil: none.
	target func(floor, peer float64) float64
	note   string
}

// fixed, ofFloor and ofPeer are the kinds of target: a number, the floor's median by a factor with
// some seconds more, and a part of the peer's median.
func fixed(x float64) func(float64, float64) float64 {
	return func(float64, float64) float64 { return x }
}
func ofFloor(factor, more float64) func(float64, float64) float64 {
	return func(floor, _ float64) float64 { return round(factor*floor + more) }
}
func ofPeer(part float64) func(float64, float64) float64 {
	return func(_, peer float64) float64 { return round(part * peer) }
}

// kubeletParts are all parts in the order in which a pass measures them. rounds are those of one
// pod; larger batches have fewer, because each round gives a sample for every pod.
func kubeletParts(rounds, crowd int) []kubeletPart {
	parts := []kubeletPart{
		startPart("start", 1, rounds, ofFloor(1, 0.060)),
		startPart("ten", 10, max(1, rounds/3), ofFloor(1.15, 0)),
		startPart("fifty", 50, max(1, rounds/4), ofFloor(1.1, 0)),
		{name: "end", rounds: rounds, measure: ends, floor: bareEnds,
			lines: []line{{key: "end", name: "kubelet-delete-to-gone", unit: "s", target: ofPeer(1. / 3),
				note: "a container that ends on TERM; floor: StopContainer, StopPodSandbox"}}},
		{name: "crash", rounds: rounds, measure: crashes, floor: bareCrashes,
			lines: []line{{key: "crash", name: "kubelet-crash-to-restarted", unit: "s", target: ofFloor(1, 0.050),
				note: "first restart, from the end of the container until the API says that the next one runs; floor: the event, CreateContainer, StartContainer, ContainerStatus"}}},
		{name: "config", measure: configEdits,
			lines: []line{{key: "config", name: "kubelet-configmap-edit-to-file", unit: "s", target: fixed(1)}}},
		{name: "idle", measure: idles, lines: []line{
			{key: "idle-calls", name: "kubelet-idle-50-cri-calls", unit: "1/s", target: fixed(0.3)},
			{key: "idle-cpu", name: "kubelet-idle-50-cpu", unit: "CPUs", target: ofPeer(1. / 3)},
			{key: "idle-cpu-all", name: "kubelet-idle-50-cpu-with-containerd-and-control-plane", unit: "CPUs"},
			{key: "idle-rss", name: "kubelet-idle-50-rss", unit: "MB", target: fixed(60)},
			{key: "idle-rss-own", name: "kubelet-idle-50-rss-own", unit: "MB",
				note: "without the pages of the program file, which all processes of that program share"}}},
		{name: "large", measure: crowds(crowd), floor: bareCrowds(crowd), lines: []line{
			{key: "large-ready", name: fmt.Sprintf("kubelet-%d-pods-ready", crowd), unit: "s", target: ofFloor(1.15, 0),
				note: "from the first bind until all are Ready; floor: as for 50 at once"},
			{key: "large-stats", name: fmt.Sprintf("kubelet-%d-pods-stats-summary", crowd), unit: "s",
				target: fixed(0.25),
				note:   "peer: processors and memory only; the target is for the slowest of the samples as well"},
			{key: "large-rss", name: fmt.Sprintf("kubelet-%d-pods-rss", crowd), unit: "MB", target: fixed(90)},
			{key: "large-cpu", name: fmt.Sprintf("kubelet-%d-pods-idle-cpu", crowd), unit: "CPUs",
				target: ofPeer(1. / 3)}}},
	}

	return append(parts, deedParts()...)
}

// side is one of those that are compared, while its kubelet runs.
type side struct {
	name    string
	w       *testkit.World
	kubelet *testkit.Process
	samples samples
	calls   calls
	serial  int
	// profiles is the folder for profiles of our kubelet; empty: none.
	profiles string
	// seccomp is the profile of the floor's sandboxes.
	seccomp *cri.SecurityProfile
}

// samples by key of a figure and by side.
// The inner map is keyed by side (bare, ours or peer). Values keep milliseconds.
type samples map[string]map[string][]float64

func (s samples) add(key, side string, values ...float64) {
	if s[key] == nil {
		s[key] = map[string][]float64{}
	}
	for _, v := range values {
		s[key][side] = append(s[key][side], round(v))
	}
}

// calls by key of a figure and by side: how often each was made.
// The innermost key is the method of the CRI, or verb and resource of a request.
type calls map[string]map[string]map[string]int

// set notes what was called between two looks.
func (c calls) set(key, side string, before, after map[string]int) (sum int) {
	if c[key] == nil {
		c[key] = map[string]map[string]int{}
	}
	c[key][side] = map[string]int{}
	for method, n := range after {
		if n -= before[method]; n > 0 {
			c[key][side][method] = n
			sum += n
		}
	}
	return sum
}

func (s *side) add(key string, values ...float64) { s.samples.add(key, s.name, values...) }

// pod is a name that no other pod of the run has.
func (s *side) pod() string {
	s.serial++
	return fmt.Sprintf("%s-%d", s.name, s.serial)
}

// benchKubelet measures our kubelet and upstream's, one after the other on the same containerd, and the same CRI calls
// without a kubelet.
func benchKubelet(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletLimit)
	defer cancel()
	var parts []kubeletPart

	// Names are taken off the list as they are found; what stays is unknown.
	wanted := strings.Split(o.kubelet, ",")
	for _, p := range kubeletParts(o.rounds, o.crowd) {
		if i := slices.Index(wanted, p.name); i >= 0 {
			parts = append(parts, p)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}

	if len(wanted) > 0 {
		return fmt.Errorf("--kubelet: no part %q", wanted)
	}

	sideNames := strings.Split(o.sides, ",")
	for _, name := range sideNames {
		if !slices.Contains([]string{bare, ours, peer}, name) {
			return fmt.Errorf("--sides: no side %q", name)
		}
	}

	// All sides share one control plane and one containerd, so that neither differs between them.
	w, err := testkit.NewWorld(ctx,
		testkit.Options{Bin: o.bin, Porthole: o.porthole, Prefix: "phb", Nodes: []string{ours, peer}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.SaveLogs(o.logs), w.Close()) }()
	if err := errors.Join(w.Namespace(ctx, namespace), w.MeterRuntime()); err != nil {
		return err
	}
	found, called := samples{}, calls{}

	sides := []*side{}
	for _, name := range sideNames {
		sides = append(sides, &side{name: name, w: w, samples: found, calls: called, profiles: o.profiles,
			seccomp: o.floorProfile()})
	}

	// The sides take turns within a pass: what else the machine does then hits all of them.
	for pass := range o.passes {
		for _, s := range sides {
			if err := s.pass(ctx, parts, pass, o.passes); err != nil {
				// An error ends the run. What was measured until then is printed first.
				for _, p := range parts { // the parts that were measured
					p.print(found, called)
				}
				return fmt.Errorf("%s: %w\n%s", s.name, err, w.Logs(3000))
			}
		}
	}

	for _, p := range parts {
		p.print(found, called)
	}
	return nil
}

// share is how many rounds of a part one of the passes does.
// The rounds are spread evenly, the remainder over the first passes.
func (p kubeletPart) share(pass, passes int) int {
	if p.rounds == 0 {
		return max(0, pass-passes+2)
	}
	return (p.rounds + passes - 1 - pass) / passes
}

// pass does one pass over all parts with one side.
func (s *side) pass(ctx context.Context, parts []kubeletPart, pass, passes int) error {
	// do is what this side measures of a part; nil: the part has nothing for it.
	do := func(p kubeletPart) func(context.Context, *side, int) error { return p.floor }
	if s.name != bare {
		do = func(p kubeletPart) func(context.Context, *side, int) error { return p.measure }
	}

	var due []kubeletPart
	for _, p := range parts {
		if p.share(pass, passes) > 0 && do(p) != nil {
			due = append(due, p)
		}
	}

	if len(due) == 0 {
		return nil
	}
	if s.name != bare {
		k, err := s.w.StartKubelet(ctx, s.name, s.name == peer)
		if err != nil {
			return err
		}
		s.kubelet = k
		defer func() { s.kubelet.Stop() }() // parts start it again
	}

	if err := s.warm(ctx); err != nil {
		return err
	}
	for _, p := range due {
		say("%s: %s, %d rounds", s.name, p.name, p.share(pass, passes))
		saved := s.profile(ctx, p.name)
		if err := errors.Join(do(p)(ctx, s, p.share(pass, passes)), saved()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}

	return nil
}

// warm pays for caches with one pod that does not count.
func (s *side) warm(ctx context.Context) error {
	if s.name == bare {
		_, _, _, err := s.bareBatch(ctx, 1, func() error { return nil })
		return err
	}
	b, err := s.start(ctx, 1, nil)
	if err != nil {
		return err
	}
	_, err = b.end(ctx)
	return err
}

// print prints the figures of the part. A side that was not measured is left out, and a figure without any sample is
// printed as skipped, so that a run that was cut short is not taken for a complete one.
// The medians decide about the target; the samples are printed too, with the slowest of them as
// P99.
func (p kubeletPart) print(found samples, called calls) {
	for _, l := range p.lines {
		of := found[l.key]
		f := figure{Name: l.name, Unit: l.unit, Note: l.note, Samples: map[string][]float64{},
			P99: map[string]float64{}}
		for side, name := range map[string]string{ours: "ours", peer: "peer", bare: "floor"} {
			if len(of[side]) > 0 {
				f.Samples[name] = of[side]
				f.P99[name] = percentile(of[side], 0.99)
			}
			// Batches keep the time of each pod beside that of the last one.
			if each := found[l.key+"-each"][side]; len(each) > 0 {
				f.Samples[name+"EachPod"] = each
				f.P99[name+"EachPod"] = percentile(each, 0.99)
			}
		}

		o := median(of[ours])
		u := median(of[peer])
		b := median(of[bare])
		f.Ours = o
		if len(of[peer]) > 0 {
			f.Peer, f.PeerIs = u, upstreamIs
		}
		if u > 0 {
			f.Ratio = round(o / u)
		}
		if b > 0 {
			f.Floor, f.OfFloor = b, round(o/b)
		}

		if l.target != nil {
			f.Target = l.target(b, u)
		}
		f.Calls = called[l.key][ours]
		f.PeerCalls = called[l.key][peer]
		if len(of) == 0 {
			f = figure{Name: l.name, Unit: l.unit, Skipped: "the run ended before it"}
		}
		print(f)
	}
}
