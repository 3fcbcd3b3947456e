package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recorded are units that remember what is asked of them, in place of systemd.
type recorded struct {
	calls []string
	fail  string // the call that fails
}

func (r *recorded) add(call string) error {
	r.calls = append(r.calls, call)
	if r.fail != "" && strings.HasPrefix(call, r.fail) {
		return errors.New("no")
	}
	return nil
}

func (r *recorded) start(unit string, properties []property) error {
	return r.add(fmt.Sprint("start ", unit, " ", properties))
}

func (r *recorded) set(unit string, properties ...property) error {
	return r.add(fmt.Sprint("set ", unit, " ", properties))
}

func (r *recorded) stop(unit string) error { return r.add("stop " + unit) }

// TestProperties: what systemd is told of a slice, in the words that its version of cgroups has.
func TestProperties(t *testing.T) {
	l := limits{memory: 64 << 20, quota: 1500, shares: 512, pids: 100}
	v2 := slice{unified: true}.properties("/a.slice/a-b.slice", l)
	v1 := slice{}.properties("/a.slice", limits{memory: 64 << 20, quota: 2000, shares: 512})
	for _, c := range []struct {
		got  []property
		want string
	}{
		{v2,
			"[{Description Kubernetes: a-b.slice} {Wants [a.slice]} {DefaultDependencies false} {MemoryAccounting true} {CPUAccounting true} {IOAccounting true} {TasksAccounting true} " +
				fmt.Sprintf("{MemoryMax 67108864} {CPUQuotaPerSecUSec 15000} {CPUWeight %d} {TasksMax 100}]",
					weight(512))},
		{v1,
			"[{Description Kubernetes: a.slice} {Wants [-.slice]} {DefaultDependencies false} {MemoryAccounting true} {CPUAccounting true} {BlockIOAccounting true} {TasksAccounting true} " +
				"{MemoryLimit 67108864} {CPUQuotaPerSecUSec 20000} {CPUShares 512}]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}

	if got := (slice{unified: true}).
		property(ofMemory, none, defaultPeriod); got != (property{"MemoryMax", uint64(math.MaxUint64)}) {
		t.Errorf("without a limit: %v", got)
	}
	for quota, want := range map[int64]int64{0: 0, 1000: 1000, 1001: 2000, 1500: 2000, 100000: 100000} {
		if got := wholePercents(quota, defaultPeriod); got != want {
			t.Errorf("%d becomes %d, want %d", quota, got, want)
		}
	}
}

// TestSlice makes, resizes and removes a cgroup of the kernel, with units in systemd's place: systemd is told all
// limits that the files get.
func TestSlice(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	name := "portholetest" + strconv.Itoa(os.Getpid())
	units := &recorded{}
	d := slice{units: units, unified: unified()}
	at := d.path(name, "pod-1")
	if want := "/" + name + ".slice/" + name + "-pod_1.slice"; at != want {
		t.Fatalf("the path is %s, want %s", at, want)
	}
	t.Cleanup(func() {
		if err := Remove(d.path(name)); err != nil {
			t.Error(err)
		}
	})
	if err := d.ensure(at, limits{shares: 20, quota: 1500, memory: 32 << 20}); err != nil {
		t.Skip("no cgroups can be made here: ", err)
	}
	memory, quota, _ := knobs(at, defaultPeriod)
	if got := []int64{valueOf(t, memory), valueOf(t, quota)}; !slices.Equal(got, []int64{32 << 20, 2000}) {
		t.Errorf("limits are %v", got)
	}

	units.calls = nil
	unit := name + "-pod_1.slice"
	if err := d.resize(at, limits{shares: 20, quota: 1000, memory: 64 << 20},
		func() error { return units.add("change") }); err != nil {
		t.Error(err)
	}
	want := []string{fmt.Sprintf("set %s [{%s 67108864}]", unit, d.name("MemoryMax", "MemoryLimit")), "change",
		"set " + unit + " [{CPUQuotaPerSecUSec 10000}]"}
	if !slices.Equal(units.calls, want) {
		t.Errorf("systemd was told %q, want %q", units.calls, want)
	}
	units.calls = nil
	if err := d.resize(at, limits{shares: 20, quota: 1000, memory: 64 << 20, period: 50000},
		func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := d.resize(at, limits{shares: 20, quota: 1500, memory: 64 << 20, period: 50000},
		func() error { return nil }); err != nil {
		t.Error(err)
	}
	if want := []string{"set " + unit +
		" [{CPUQuotaPerSecUSec 30000} {CPUQuotaPeriodUSec 50000}]"}; !slices.Equal(units.calls, want) {
		t.Errorf("with another period systemd was told %q, want %q", units.calls, want)
	}
	if err := d.resize(at, limits{shares: 20, quota: 1000, memory: 64 << 20}, func() error { return nil }); err != nil {
		t.Error(err)
	}
	units.fail = "set"
	if err := d.resize(at, limits{shares: 20, quota: 3000, memory: 64 << 20},
		func() error { return nil }); err == nil || valueOf(t, quota) != 1000 {
		t.Errorf("systemd refused it: %v, the quota is %d", err, valueOf(t, quota))
	}

	units.calls, units.fail = nil, ""
	for range 2 {
		if err := d.remove(at); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(memory.file); !errors.Is(err, os.ErrNotExist) ||
		!slices.Equal(units.calls, []string{"stop " + unit, "stop " + unit}) {
		t.Errorf("after the removal: %v, %q", err, units.calls)
	}
	if got := d.containers(at, "c1"); !slices.Equal(got,
		[]string{at + "/cri-containerd-c1.scope", at + "/crio-c1.scope"}) {
		t.Errorf("the container's cgroup may be %v", got)
	}
}

// TestNoSystemd: without systemd its driver cannot be used, and the error says what to do.
func TestNoSystemd(t *testing.T) {
	if exists("/run/systemd/private") || exists("/run/dbus/system_bus_socket") {
		t.Skip("there may be a systemd")
	}
	tree := New("")
	if err := tree.Use(Systemd); err == nil || !strings.Contains(err.Error(), "set SystemdCgroup = false") ||
		tree.Top() != "" {
		t.Errorf("%v, pods would be in %q", err, tree.Top())
	}
}

// TestNamed: a configuration names slices as upstream's, with a path and a suffix or without.
func TestNamed(t *testing.T) {
	for name, want := range map[string]string{"/system.slice": "/system.slice", "system": "/system.slice",
		"/kube.slice/kube-node.slice": "/kube.slice/kube-node.slice"} {
		if got := (slice{}).named(name); got != want {
			t.Errorf("%s is at %s, want %s", name, got, want)
		}
	}
	if got := (files{}).named("system/kube"); got != "/system/kube" {
		t.Error(got)
	}
}
