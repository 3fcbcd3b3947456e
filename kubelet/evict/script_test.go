package evict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/script"
)

// TestScripts plays testdata/*.txtar. Sections are
//
//	pods        the pods of the node, in YAML: a v1.PodList
//	node        lines that change what the configuration asks for and what is observed: see line
//	want after  what the rounds of the section before printed
//
// Row 1.13.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txtar", func(*testing.T) script.Player { return newNode() })
}

// node is a node on which a script is played.
type node struct {
	settings Settings
	desired  Desired
	seen     Observed
	usage    map[types.UID]*Usage
	freed    map[string]Level // levels after the next reclaim
	state    State
	now      time.Time
	out      strings.Builder
}

// start is the time at which scripts begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newNode() *node {
	n := &node{now: start, usage: map[types.UID]*Usage{}, freed: map[string]Level{},
		desired: Desired{Transition: time.Minute, MaxGrace: time.Minute},
		settings: Settings{Hard: map[string]string{}, Soft: map[string]string{}, SoftGrace: map[string]string{},
			MinimumReclaim: map[string]string{}}}
	n.seen.Levels = map[string]Level{}
	return n
}

// Give takes in a section.
func (n *node) Give(section, text string) error {
	if section == "pods" {
		var list v1.PodList
		if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil {
			return err
		}
		for i := range list.Items {
			p := &list.Items[i]
			p.UID = types.UID(p.Name)
			n.seen.Pods = append(n.seen.Pods, Pod{Pod: p})
		}
		return nil
	}

	for line := range strings.Lines(text) {
		line, _, _ := strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if err := n.line(f[0], f[1:]); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	return nil
}

// Show returns what the rounds printed since the last time.
func (n *node) Show(string) (string, error) {
	defer n.out.Reset()
	return n.out.String(), nil
}

// line carries out one line of a script.
func (n *node) line(what string, args []string) (err error) {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}

	switch what {
	case "hard":
		n.settings.Hard[arg(0)] = arg(1)
	case "soft":
		n.settings.Soft[arg(0)], n.settings.SoftGrace[arg(0)] = arg(1), arg(2)
	case "minimum-reclaim":
		n.settings.MinimumReclaim[arg(0)] = arg(1)
	case "allocatable":
		n.settings.Allocatable = true
	case "local-limits":
		n.desired.LocalLimits = true
	case "max-grace":
		n.desired.MaxGrace, err = time.ParseDuration(arg(0))
	case "images-apart":
		n.seen.ImagesApart = true
	case "layers-apart":
		n.seen.LayersApart = true
	case "level": // signal left/whole, or signal unknown
		return setLevel(n.seen.Levels, arg(0), arg(1))
	case "freed": // the same, after the next reclaim
		return setLevel(n.freed, arg(0), arg(1))
	case "use": // pod key=amount…
		return n.use(types.UID(arg(0)), args[1:])
	case "gone":
		n.seen.Pods = slices.DeleteFunc(n.seen.Pods, func(p Pod) bool { return p.Name == arg(0) })
	case "restart":
		n.state = State{}
	case "at":
		after, err := time.ParseDuration(arg(0))
		if err != nil {
			return err
		}
		n.now = start.Add(after)
		return n.round()
	default:
		return fmt.Errorf("no such line")
	}
	return err
}

func setLevel(levels map[string]Level, signal, text string) error {
	if text == "unknown" {
		delete(levels, signal)
		return nil
	}
	left, whole, _ := strings.Cut(text, "/")
	l, err := resource.ParseQuantity(left)
	if err != nil {
		return err
	}
	w, err := resource.ParseQuantity(whole)
	if err != nil {
		return err
	}
	levels[signal] = Level{Left: uint64(l.Value()), Whole: uint64(w.Value())}
	return nil
}

// use sets what a pod uses: memory, processes, files, CONTAINER.memory, CONTAINER.layer, CONTAINER.logs, volume.NAME;
// inodes behind a colon.
func (n *node) use(uid types.UID, list []string) error {
	u := &Usage{}
	n.usage[uid] = u
	for _, text := range list {
		key, value, _ := strings.Cut(text, "=")
		value, objects, _ := strings.Cut(value, ":")
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}

		amount, count := uint64(q.Value()), uint64(0)
		if objects != "" {
			if _, err := fmt.Sscan(objects, &count); err != nil {
				return err
			}
		}

		name, part, inContainer := strings.Cut(key, ".")
		switch {
		case key == "memory":
			u.Memory = &amount
		case key == "processes":
			u.Processes = amount
		case key == "files":
			u.Files, u.FileObjects = amount, count
		case name == "volume":
			u.Volumes = append(u.Volumes, VolumeUsage{Name: part, Bytes: amount, Objects: count})
		case inContainer:
			at := slices.IndexFunc(u.Containers, func(c ContainerUsage) bool { return c.Name == name })
			if at < 0 {
				at = len(u.Containers)
				u.Containers = append(u.Containers, ContainerUsage{Name: name})
			}
			c := &u.Containers[at]
			switch part {
			case "memory":
				c.Memory = &amount
			case "layer":
				c.Layer, c.LayerObjects = &amount, count
			case "logs":
				c.Logs, c.LogObjects = &amount, count
			}
		default:
			return fmt.Errorf("%s is nothing that a pod uses", key)
		}
	}
	return nil
}

// round plays one round: it gives the plan what it needs until it needs nothing more.
func (n *node) round() error {
	var err error
	if n.desired.Thresholds, err = Parse(n.settings); err != nil {
		return err
	}
	fmt.Fprintf(&n.out, "at %v\n", n.now.Sub(start))
	seen := n.seen
	for {
		plan, after := n.state.Next(n.desired, seen, n.now)
		for line := range strings.Lines(plan.String()) {
			n.out.WriteString("  " + line)
		}
		if plan.Needs.None() {
			n.state = after
			return nil
		}

		if plan.Needs.Usage || len(plan.Needs.UsageOf) > 0 {
			seen.Measured = true
			seen.Pods = slices.Clone(n.seen.Pods)
			for i := range seen.Pods {
				if plan.Needs.Usage || slices.Contains(plan.Needs.UsageOf, seen.Pods[i].UID) {
					seen.Pods[i].Usage = n.usage[seen.Pods[i].UID]
				}
			}
		}
		if plan.Needs.Reclaim != (Reclaim{}) {
			seen.Reclaimed = true
			for signal, l := range n.freed {
				n.seen.Levels[signal] = l
			}
			clear(n.freed)
		}
	}
}
