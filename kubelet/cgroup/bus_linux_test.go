package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// systemdTree returns a tree whose cgroups the systemd of this machine makes. test/cgroupv2 starts a machine with one.
func systemdTree(t *testing.T, most v1.ResourceList) Tree {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("systemd is not the first process of this machine")
	}
	root := "portholetest" + strconv.Itoa(os.Getpid())
	tree := New(root).Most(most)
	if err := tree.Use(Systemd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.driver().remove(tree.driver().path(root)); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// podOf has one container with these requests and limits. Its UID has dashes.
func podOf(uid string, class v1.PodQOSClass, requests, limits v1.ResourceList) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Status: v1.PodStatus{QOSClass: class},
		Spec: v1.PodSpec{Containers: []v1.Container{container(requests, limits)}}}
}

// limitsAt reads memory, quota and shares of a cgroup from the kernel's files.
func limitsAt(t *testing.T, at string) string {
	t.Helper()
	memory, quota, shares := knobs(at, defaultPeriod)
	var out []string
	for _, k := range []knob{memory, quota, shares} {
		out = append(out, k.print(valueOf(t, k)))
	}
	return strings.Join(out, " ")
}

// wanted returns these limits as text, in the form in which limitsAt returns those that a cgroup has.
func wanted(l limits) string {
	memory, quota, shares := knobs("", defaultPeriod)
	return memory.print(orNone(l.memory)) + " " + quota.print(orNone(l.quota)) + " " + shares.print(l.shares)
}

func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		t.Errorf("systemctl %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestSystemd makes, resizes and removes slices with the systemd of this machine. What it reads anew, or starts below
// them, changes no limit.
func TestSystemd(t *testing.T) {
	tree := systemdTree(t, list("cpu", "1500m", "memory", "1Gi", "pid", "500"))
	small := podOf("aaaa-1", v1.PodQOSGuaranteed, list("cpu", "15m", "memory", "64Mi"),
		list("cpu", "15m", "memory", "64Mi"))
	burst := podOf("aaaa-2", v1.PodQOSBurstable, list("cpu", "500m"), nil)
	best := podOf("aaaa-3", v1.PodQOSBestEffort, nil, nil)
	all := []*v1.Pod{small, burst, best}
	expect := func(when string, want map[string]limits) {
		t.Helper()
		for at, l := range want {
			if got := limitsAt(t, at); got != wanted(l) {
				t.Errorf("%s: %s has %s, want %s", when, at, got, wanted(l))
			}
		}
	}

	if err := tree.Share(nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as after a restart of the kubelet
		if err := tree.Share(all); err != nil {
			t.Error(err)
		}
		for _, p := range all {
			if err := tree.Ensure(p); err != nil {
				t.Error(err)
			}
		}
	}
	want := map[string]limits{tree.Top(): {shares: 1536, memory: 1 << 30},
		filepath.Dir(tree.Path(burst)): {shares: 512}, filepath.Dir(tree.Path(best)): {shares: 2},
		tree.Path(small): {shares: 15, quota: 2000, memory: 64 << 20}, tree.Path(burst): {shares: 512},
		tree.Path(best): {shares: 2}}
	expect("made", want)
	shown := systemctl(t, "show", filepath.Base(tree.Path(small)), "-p",
		"ActiveState,MemoryAccounting,CPUAccounting,TasksAccounting,CPUQuotaPerSecUSec,DefaultDependencies,Slice")
	for _, line := range []string{"ActiveState=active", "MemoryAccounting=yes", "CPUAccounting=yes",
		"TasksAccounting=yes", "CPUQuotaPerSecUSec=20ms", "DefaultDependencies=no",
		"Slice=" + filepath.Base(tree.Top())} {
		if !strings.Contains("\n"+shown+"\n", "\n"+line+"\n") {
			t.Errorf("systemd does not show %s: %s", line, shown)
		}
	}
	systemctl(t, "daemon-reload")
	expect("read anew", want)

	small.Spec.Containers[0] = container(list("cpu", "100m", "memory", "32Mi"), list("cpu", "100m", "memory", "32Mi"))
	if err := tree.Resize(small, func() error { return nil }); err != nil {
		t.Error(err)
	}
	want[tree.Path(small)] = limits{shares: 102, quota: 10000, memory: 32 << 20}
	burst.Spec.Containers[0] = container(list("cpu", "250m"), list("cpu", "1", "memory", "64Mi"))
	if err := errors.Join(tree.Resize(burst, func() error { return nil }), tree.Share(all)); err != nil {
		t.Error(err)
	}
	want[tree.Path(burst)], want[filepath.Dir(tree.Path(burst))] = limits{shares: 256, quota: 100000,
		memory: 64 << 20}, limits{shares: 256}
	expect("resized", want)
	systemctl(t, "daemon-reload")
	startScope(t, tree.Path(burst), "cri-containerd-c1.scope")
	expect("resized, read anew, and something started", want)
	burst.Spec.Containers[0] = container(list("cpu", "250m"), nil)
	if err := tree.Resize(burst, func() error { return nil }); err != nil {
		t.Error(err)
	}
	want[tree.Path(burst)] = limits{shares: 256}
	systemctl(t, "daemon-reload")
	expect("without limits, and read anew", want)
	checkPids(t, tree.Top(), "500")

	systemctl(t, "daemon-reexec") // every connection to it ends
	removes(t, tree, []types.UID{"aaaa-1", "aaaa-2", "aaaa-3"}, all)
}

// removes removes pods, of which the second has a container with a process that does not end by itself, by the UID
// alone.
func removes(t *testing.T, tree Tree, uids []types.UID, pods []*v1.Pod) {
	t.Helper()
	other := startScope(t, tree.Path(pods[1]), "cri-containerd-c2.scope")
	began := time.Now()
	if err := tree.RemoveContainer(uids[1], "c1"); err != nil {
		t.Error(err)
	}
	if states := unitStates(t, "cri-containerd-c1.scope", "cri-containerd-c2.scope"); states != "inactive active" {
		t.Errorf("the scopes of a container that was removed and of another are %s", states)
	}

	for i, uid := range uids {
		for range 2 {
			if err := tree.RemovePod(uid); err != nil {
				t.Error(err)
			}
		}
		unit := filepath.Base(tree.Path(pods[i]))
		if state := systemctl(t, "show", unit, "--value", "-p",
			"ActiveState,LoadState"); state != "not-found\ninactive" {
			t.Errorf("after the removal %s is %q", unit, state)
		}
		if memory, _, _ := knobs(tree.Path(pods[i]), defaultPeriod); exists(memory.file) {
			t.Errorf("%s is still there", memory.file)
		}
	}
	<-other // the test's own limit bounds it
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the removal took %s", took)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func unitStates(t *testing.T, units ...string) string {
	t.Helper()
	var out []string
	for _, unit := range units {
		out = append(out, systemctl(t, "show", unit, "--value", "-p", "ActiveState"))
	}
	return strings.Join(out, " ")
}

func checkPids(t *testing.T, at, want string) {
	t.Helper()
	file := filepath.Join(mountPoint, at, "pids.max")
	if !unified() {
		file = filepath.Join(mountPoint, "pids", at, "pids.max")
	}
	if text, err := os.ReadFile(file); strings.TrimSpace(string(text)) != want {
		t.Errorf("%s has %q, want %s: %v", file, text, want, err)
	}
}

// startScope starts a process that does not end when it is asked to, in a scope below a slice, as a runtime does. The
// channel is closed when it has ended.
func startScope(t *testing.T, slice, unit string) <-chan struct{} {
	t.Helper()
	c := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 1000; done")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() { _ = c.Process.Kill(); <-ended }) // an error says that it has ended
	b := &bus{}
	err := b.job(unit, func(ctx context.Context, conn *dbus.Conn, done chan<- string) error {
		_, err := conn.StartTransientUnitContext(ctx, unit, "replace",
			[]dbus.Property{dbus.PropSlice(filepath.Base(slice)), {Name: "Delegate", Value: godbus.MakeVariant(true)},
				{Name: "PIDs", Value: godbus.MakeVariant([]uint32{uint32(c.Process.Pid)})},
				{Name: "DefaultDependencies", Value: godbus.MakeVariant(false)}}, done)
		return err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("starting %s: %w", unit, err))
	}
	b.conn.Close()
	return ended
}
