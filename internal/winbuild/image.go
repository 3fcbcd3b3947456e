package winbuild

import (
	"slices"
	"strings"
)

// Platform is one variant of an image, as an index or an image's configuration names it.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Version      string `json:"version,omitempty"` // os.version; empty if it is not given
	// Digest names the variant alone; empty if the image has no index.
	Digest string `json:"digest,omitempty"`
}

func (p Platform) String() string {
	s := p.OS + "/" + p.Architecture
	if p.Version != "" {
		s += " " + p.Version
	}
	return s
}

// Image is what a registry says of the variants of an image.
type Image struct {
	// Index reports whether the image has an index. Without one there is one variant, and a runtime does not compare
	// its platform.
	Index bool `json:"index"`
	// Platforms are the variants whose platform is given.
	Platforms []Platform `json:"platforms"`
	// Unnamed reports whether there is a variant without a platform. Runtimes then read more than the index.
	Unnamed bool `json:"unnamed,omitempty"`
}

// Builds returns the builds of Windows that the image is for, oldest first.
func (i Image) Builds() []Build {
	var out []Build
	for _, p := range i.Platforms {
		if v, ok := ParseVersion(p.Version); ok && p.OS == "windows" {
			out = append(out, v.Build)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Host is a Windows host that an image may run on.
type Host struct {
	Name         string // of the node; may be empty
	Version      Version
	Architecture string
}

// Outcome is whether an image runs on a host.
type Outcome int

const (
	// Unknown: nothing can be concluded; the runtime decides.
	Unknown Outcome = iota
	// Runs: at least one variant of the image runs.
	Runs
	// NotRun: no variant of the image runs.
	NotRun
)

func (o Outcome) String() string { return [...]string{"unknown", "runs", "does not run"}[o] }

// Answer is whether an image runs on a host, with the variant and the rule that decide it.
type Answer struct {
	Outcome Outcome
	// Platform is the variant that runs. If none does, it is the newest that is not newer than the host, or else the
	// oldest.
	Platform Platform
	Rule     Rule
}

// rulePlatform is the rule for variants for another operating system or processor.
var rulePlatform = Rule{false, "a Windows node runs images for windows and its own processor architecture only",
	"github.com/containerd/platforms compare.go"}

// Check returns whether an image runs on a host with an isolation. The answer is Unknown if a variant has no version
// or no platform, or if the host's build or the isolation is not known.
func Check(image Image, host Host, i Isolation) Answer {
	if i == UnknownIsolation || host.Version.Build == 0 || image.Unnamed || len(image.Platforms) == 0 {
		return Answer{}
	}
	// any image runs, but a runtime can pull an index only if a variant of it fits in process isolation
	if i == HostProcess {
		if !image.Index {
			return Answer{Runs, image.Platforms[0], ruleHostProcess}
		}
		i = Process
	}

	var best, nearest Answer
	for _, p := range image.Platforms {
		if p.OS != "windows" || p.Architecture != host.Architecture {
			continue
		}
		v, ok := ParseVersion(p.Version)
		if !ok {
			return Answer{}
		}
		a := Answer{NotRun, p, Match(host.Version, v, i)}
		if a.Rule.Runs {
			a.Outcome = Runs
			best = newer(best, a)
		} else {
			nearest = nearer(nearest, a, host.Version)
		}
	}
	switch {
	case best.Outcome == Runs:
		return best
	case nearest.Outcome == NotRun:
		return nearest
	}
	return Answer{NotRun, image.Platforms[0], rulePlatform}
}

// newer returns the answer with the newer build.
func newer(a, b Answer) Answer {
	va, _ := ParseVersion(a.Platform.Version)
	vb, _ := ParseVersion(b.Platform.Version)
	if a.Outcome != b.Outcome || vb.Build > va.Build {
		return b
	}
	return a
}

// nearer returns the answer whose build is better as Answer.Platform, if neither runs. The zero Answer loses to any
// other.
func nearer(a, b Answer, host Version) Answer {
	if a.Outcome == Unknown {
		return b
	}
	va, _ := ParseVersion(a.Platform.Version)
	vb, _ := ParseVersion(b.Platform.Version)
	olderA := va.Build <= host.Build
	olderB := vb.Build <= host.Build
	if olderA != olderB {
		if olderB {
			return b
		}
		return a
	}
	if (vb.Build > va.Build) == olderA {
		return b
	}
	return a
}

// Contents returns as text what an image is for: its Windows builds, or its platforms if it has none.
func (i Image) Contents() string {
	if builds := i.Builds(); len(builds) > 0 {
		return "Windows " + plural(len(builds), "build", "builds") + " " + List(builds)
	}
	var out []string
	for _, p := range i.Platforms {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
