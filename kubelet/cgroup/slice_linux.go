package cgroup

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
)

// slice has systemd make cgroups: each is a transient unit, a slice. Who writes the files alone loses: systemd sets
// what it knows of a unit again when it reads its files anew or something starts below the unit. So limits are
// properties of units. What systemd does not know, and what it does not do because it does not manage a controller (a
// hybrid host), is written to the files too.
type slice struct {
	units   units
	unified bool // cgroup v2 has the controllers
}

// units are systemd's units; bus implements it.
type units interface {
	// start starts a transient unit with these properties. If it runs already, it gets them.
	start(unit string, properties []property) error
	set(unit string, properties ...property) error
	// stop stops a unit and all in it, and has systemd forget it. It succeeds if there is no such unit.
	stop(unit string) error
}

// property is one setting of a unit. value is a bool, a string, a list of strings or a uint64.
type property struct {
	name  string
	value any
}

func (slice) path(names ...string) string { return slicePath(names) }

// named takes the name of a slice with or without its path and suffix, as upstream does.
func (slice) named(name string) string {
	return slicePath(strings.Split(strings.TrimSuffix(path.Base(name), sliceSuffix), "-"))
}

func (slice) containers(pod, id string) (out []string) {
	for _, prefix := range scopePrefixes {
		out = append(out, path.Join(pod, prefix+id+scopeSuffix))
	}
	return out
}

// ensure starts the unit; systemd starts those above it, for a slice needs the one that its name says.
func (s slice) ensure(at string, l limits) error {
	l.quota = wholePercents(l.quota, l.per())
	if err := s.units.start(path.Base(at), s.properties(at, l)); err != nil {
		return fmt.Errorf("creating the cgroup %s: %w", at, err)
	}
	return ensure(at, l)
}

func (s slice) resize(at string, l limits, change func() error) error {
	l.quota = wholePercents(l.quota, l.per())
	return resize(at, l, change, func(which int, value int64) error {
		changed := []property{s.property(which, value, l.per())}
		if which == ofQuota {
			changed = append(changed, periods(l)...)
		}
		if err := s.units.set(path.Base(at), changed...); err != nil {
			return fmt.Errorf("setting limits of the cgroup %s: %w", at, err)
		}
		return nil
	})
}

// remove kills what is left before it stops the unit: systemd would give it a minute and a half to end.
func (s slice) remove(at string) error {
	// its name does not say whose it is: it may be that of another pod
	if strings.HasSuffix(at, scopeSuffix) && !present(at) {
		return nil
	}
	killBelow(at)
	err := s.units.stop(path.Base(at))
	if err != nil {
		err = fmt.Errorf("removing the cgroup %s: %w", at, err)
	}
	return errors.Join(err, Remove(at)) // controllers that systemd does not manage
}

// newSlices connects to systemd.
func newSlices() (driver, error) {
	b := &bus{}
	if _, err := b.connection(); err != nil {
		return nil, err
	}
	return slice{units: b, unified: unified()}, nil
}

// properties are those of a new unit. What the kernel counts is counted from the start.
func (s slice) properties(at string, l limits) []property {
	io := "IOAccounting"
	if !s.unified {
		io = "BlockIOAccounting"
	}
	above := path.Base(path.Dir(at))
	if above == "/" {
		above = "-.slice"
	}
	out := []property{{"Description", "Kubernetes: " + path.Base(at)}, {"Wants", []string{above}},
		{"DefaultDependencies", false},
		{"MemoryAccounting", true}, {"CPUAccounting", true}, {io, true}, {"TasksAccounting", true}}

	for which, value := range [...]int64{ofMemory: l.memory, ofQuota: l.quota, ofShares: l.shares} {
		if value > 0 {
			out = append(out, s.property(which, value, l.per()))
		}
	}
	out = append(out, periods(l)...)
	if l.pids > 0 {
		out = append(out, property{"TasksMax", uint64(l.pids)})
	}
	return out
}

// periods is the period of the quota, where there is one and it is not systemd's default.
func periods(l limits) []property {
	if l.quota == 0 || l.per() == defaultPeriod {
		return nil
	}
	return []property{{"CPUQuotaPeriodUSec", uint64(l.per())}}
}

// property is one limit as systemd has it; none is none. period is that of a quota.
func (s slice) property(which int, value, period int64) property {
	infinity := uint64(math.MaxUint64)
	switch {
	case which == ofMemory && value == none:
		return property{s.name("MemoryMax", "MemoryLimit"), infinity}
	case which == ofMemory:
		return property{s.name("MemoryMax", "MemoryLimit"), uint64(value)}
	case which == ofQuota && value == none:
		return property{"CPUQuotaPerSecUSec", infinity}
	case which == ofQuota:
		return property{"CPUQuotaPerSecUSec", uint64(value) * 1e6 / uint64(period)}
	case s.unified:
		return property{"CPUWeight", uint64(weight(value))}
	}
	return property{"CPUShares", uint64(value)}
}

func (s slice) name(v2, v1 string) string {
	if s.unified {
		return v2
	}
	return v1
}

// wholePercents rounds a quota up to whole percents of a processor, in which systemd keeps them. Where it did not, the
// pod would have less than its containers.
func wholePercents(quota, period int64) int64 {
	percent := period / 100
	return (quota + percent - 1) / percent * percent
}
