package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestResize changes the limits of a real cgroup.
func TestResize(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	path := filepath.Join("/porthole-test-resize-"+strconv.Itoa(os.Getpid()), "pod1")
	if err := ensure(path, limits{shares: 20, quota: 2000, memory: 32 << 20}); err != nil {
		t.Skip("no cgroups can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := Remove(filepath.Dir(path)); err != nil {
			t.Error(err)
		}
	})
	memory, quota, shares := knobs(path, defaultPeriod)
	read := func(k knob) string {
		t.Helper()
		return k.print(valueOf(t, k))
	}
	expect := func(when string, l limits) {
		t.Helper()
		for _, c := range []struct {
			k    knob
			want int64
		}{{memory, orNone(l.memory)}, {quota, orNone(l.quota)}, {shares, l.shares}} {
			if got, want := read(c.k), c.k.print(c.want); got != want {
				t.Errorf("%s: %s has %s, want %s", when, c.k.file, got, want)
			}
		}
	}
	apply := func(l limits, change func() error) {
		t.Helper()
		if err := resize(path, l, change, nil); err != nil {
			t.Fatal(err)
		}
		expect("after", l)
	}
	small, big, mixed := limits{shares: 20, quota: 2000, memory: 32 << 20}, limits{shares: 400, quota: 40000,
		memory: 64 << 20},
		limits{shares: 400, quota: 2000, memory: 32 << 20}
	expect("before", small)
	apply(big, func() error { expect("growing", big); return nil })
	apply(mixed, func() error { expect("shrinking", big); return nil })
	apply(small, func() error { expect("fewer shares", mixed); return nil })
	apply(limits{shares: 20}, func() error { expect("without limits", limits{shares: 20}); return nil })
	apply(small, func() error { expect("limits again", limits{shares: 20}); return nil })

	failed := errors.New("no")
	if err := resize(path, limits{shares: 2, quota: 1000, memory: 16 << 20}, func() error { return failed },
		nil); !errors.Is(err, failed) {
		t.Error(err)
	}
	expect("after a failure", small)
	called := false
	err := resize(path, limits{shares: 400, quota: 2000, memory: 1}, func() error { called = true; return nil }, nil)
	if usage := checkUsage(path, 1); usage != nil { // an empty cgroup may use nothing at all
		if err == nil || called ||
			!strings.HasPrefix(err.Error(),
				"cannot decrease memory limits: attempting to set pod memory limit (1) below current usage (") {
			t.Errorf("%v, called: %v", err, called)
		}
		expect("refused", small)
	}
}

func TestKernelNumbers(t *testing.T) {
	for text, want := range map[string]int64{"-1": none, "max": none, "max 100000": none, "2000 100000": 2000,
		"9223372036854771712": none, "33554432": 32 << 20} {
		if got, err := readLimit(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for shares, want := range map[int64]int64{2: 1, 102: 4, 256: 10, 1024: 39, 2000: 77, 262144: 10000} {
		if got := weight(shares); got != want {
			t.Errorf("%d shares have the weight %d, want %d", shares, got, want)
		}
	}
	for _, n := range []int64{2, 3, 20, 512, 1024, 262144} {
		w := weight(n)
		if got, err := readWeight(strconv.FormatInt(w, 10)); err != nil || weight(got) != w || got > n {
			t.Errorf("%d shares: weight %d is %d shares, %v", n, w, got, err)
		}
	}
}

// valueOf reads the file of a limit.
func valueOf(t *testing.T, k knob) int64 {
	t.Helper()
	text, err := os.ReadFile(k.file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := k.read(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
