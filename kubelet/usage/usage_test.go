package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tree makes files below a folder; a text that begins with -> is a link.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, "->"); link {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const (
	pods = "/kubepods"
	pod  = pods + "/burstable/podu1"
	box  = pod + "/c1"
)

// processes are two of a container: one with a socket and a file open, of which the second has ended by the time it is
// read.
var processes = map[string]string{
	"proc/70/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max cpu time              unlimited            unlimited            seconds   \nMax open files            1024                 524288               files     \n",
	"proc/70/fd/0": "->/dev/null", "proc/70/fd/3": "->socket:[42]",
	"proc/70/net/dev": "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
		"    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0: 900 9 1 2 0 0 0 0 800 8 3 4 0 0 0 0\n",
	"dev/8:0": "->../../devices/pci0000:00/block/sda",
}

// v1 is a container on a host with version 1, as a kernel 6.1 shows it.
func v1(t *testing.T) *Reader {
	t.Helper()
	dir := t.TempDir()
	tree(t, dir, processes)
	files := map[string]string{"memory/memory.usage_in_bytes": "9000\n",
		"memory" + pods + "/memory.usage_in_bytes": "8000\n", "memory" + pods + "/besteffort/x": "",
		"memory" + pods + "/burstable/memory.usage_in_bytes": "1\n", "memory" + pod + "/memory.usage_in_bytes": "1\n",
		"memory" + pods + "/memory.limit_in_bytes": "16384\n",
		"memory" + pods + "/memory.stat":           "total_inactive_file 1000\n"}
	for name, text := range map[string]string{
		"cpu/cpu.stat":   "nr_periods 12\nnr_throttled 3\nthrottled_time 500000000\nnr_bursts 1\nburst_time 20000\n",
		"cpu/cpu.shares": "2\n", "cpu/cpu.cfs_period_us": "100000\n", "cpu/cpu.cfs_quota_us": "-1\n",
		"cpuacct/cpuacct.usage": "2500000000\n", "cpuacct/cpuacct.stat": "user 180\nsystem 70\n",
		"memory/memory.usage_in_bytes": "5000\n", "memory/memory.max_usage_in_bytes": "7000\n",
		"memory/memory.failcnt": "4\n", "memory/memory.kmem.usage_in_bytes": "300\n",
		"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.memsw.limit_in_bytes": "80000\n",
		"memory/memory.soft_limit_in_bytes": "9223372036854771712\n",
		"memory/memory.oom_control":         "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"memory/memory.stat":                "cache 1\nrss 2\npgfault 11\npgmajfault 1\ntotal_cache 1500\ntotal_rss 2000\ntotal_mapped_file 700\ntotal_swap 0\ntotal_pgfault 12\ntotal_pgmajfault 2\ntotal_inactive_file 1200\ntotal_active_file 300\n",
		"memory/cgroup.procs":               "70\n71\n", "pids/pids.current": "3\n", "pids/pids.max": "max\n",
		"blkio/blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 12288\n8:0 Async 0\n8:0 Discard 0\n8:0 Total 12288\nTotal 12288\n",
		"blkio/blkio.throttle.io_serviced_recursive":      "8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Async 0\n8:0 Discard 0\n8:0 Total 3\nTotal 3\n",
	} {
		controller, file, _ := strings.Cut(name, "/")
		files[controller+box+"/"+file] = text
	}
	tree(t, filepath.Join(dir, "cg"), files)
	return at(filepath.Join(dir, "cg"), filepath.Join(dir, "proc"), filepath.Join(dir, "dev"))
}

// v2 is the same with version 2, on a kernel that measures pressure.
func v2(t *testing.T) *Reader {
	t.Helper()
	dir := t.TempDir()
	tree(t, dir, processes)
	files := map[string]string{"cgroup.controllers": "cpu io memory pids\n", pods[1:] + "/memory.current": "8000\n",
		pods[1:] + "/memory.max":  "16384\n",
		pods[1:] + "/memory.stat": "inactive_file 1000\n", pods[1:] + "/besteffort/x": "",
		"memory.stat": "anon 100\nfile 50\n"}
	for name, text := range map[string]string{
		"cpu.stat":   "usage_usec 2500000\nuser_usec 1800000\nsystem_usec 700000\nnr_periods 12\nnr_throttled 3\nthrottled_usec 500000\nnr_bursts 1\nburst_usec 20\n",
		"cpu.weight": "1\n", "cpu.max": "max 100000\n", "memory.current": "5000\n", "memory.peak": "7000\n",
		"memory.swap.current": "0\n", "memory.max": "max\n", "memory.swap.max": "80000\n",
		"memory.min": "0\n", "memory.events": "low 0\nhigh 0\nmax 4\noom 2\noom_kill 2\n",
		"memory.stat":  "anon 2000\nfile 1500\nkernel 300\nfile_mapped 700\ninactive_file 1200\nactive_file 300\npgfault 12\npgmajfault 2\n",
		"cgroup.procs": "70\n71\n", "pids.current": "3\n", "pids.max": "max\n",
		"io.stat":      "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
		"cpu.pressure": "some avg10=1.50 avg60=0.20 avg300=0.00 total=2000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
	} {
		files[box[1:]+"/"+name] = text
	}
	tree(t, filepath.Join(dir, "cg"), files)
	return at(filepath.Join(dir, "cg"), filepath.Join(dir, "proc"), filepath.Join(dir, "dev"))
}

// TestBothVersions: one container is told the same with both versions, but for what only one of them knows.
func TestBothVersions(t *testing.T) {
	for name, r := range map[string]*Reader{"v1": v1(t), "v2": v2(t)} {
		t.Run(name, func(t *testing.T) {
			g, ok := r.bounded(box, true)
			if !ok {
				t.Fatal("not there")
			}
			cpu := CPU{Total: 2.5e9, User: 1.8e9, System: 0.7e9, Periods: 12, Throttled: 3, ThrottledTime: 5e8,
				Shares: 2, Period: 100000,
				Bursts: 1, BurstTime: 20000, HasBursts: 1}
			memory := Memory{Usage: 5000, Most: 7000, WorkingSet: 3800, Cache: 1500, RSS: 2000, Mapped: 700,
				Kernel: 300, ActiveFile: 300, InactiveFile: 1200, Faults: 12, MajorFaults: 2,
				OwnFaults: 11, OwnMajorFaults: 1, Failures: 4, Kills: 2, SwapLimit: 80000, HasMost: true,
				HasLimits: true}
			disk := Disk{Name: "/dev/sda", Major: "8", Minor: "0", Reads: 1, Writes: 2, ReadBytes: 4096,
				WroteBytes: 8192}
			if name == "v2" {
				memory.OwnFaults, memory.OwnMajorFaults, memory.Failures, memory.HasSwap = 12, 2, 0, true
			} else {
				disk.Other = map[string]uint64{"Sync": 12288, "Async": 0, "Discard": 0, "Total": 12288}
			}
			if g.CPU != cpu {
				t.Errorf("processors: %+v, want %+v", g.CPU, cpu)
			}
			if g.Memory != memory {
				t.Errorf("memory: %+v, want %+v", g.Memory, memory)
			}
			if fmt.Sprint(g.Disks) != fmt.Sprint([]Disk{disk}) {
				t.Errorf("disks: %+v", g.Disks)
			}
			if want := (Tasks{Processes: 2, Threads: 3, Files: 2, Sockets: 1, OpenFiles: 1024, HasOpenFiles: true,
				first: "70"}); g.Tasks != want {
				t.Errorf("tasks: %+v, want %+v", g.Tasks, want)
			}
			if want := []Interface{{"eth0", 900, 9, 1, 2, 800, 8, 3, 4}}; !slices.Equal(g.Interfaces, want) {
				t.Errorf("network: %+v", g.Interfaces)
			}
			if name == "v2" && (g.Pressure == nil ||
				g.Pressure.CPU != (Waits{Some: Wait{2000, 1.5, 0.2, 0}, Full: Wait{Total: 7}})) ||
				name == "v1" && g.Pressure != nil {
				t.Errorf("pressure: %+v", g.Pressure)
			}

			all, ok := r.One(pods)
			if !ok || all.Memory.WorkingSet != 7000 || all.Memory.Limit != 16384 || !all.Memory.Limited {
				t.Errorf("all pods: %v %+v", ok, all.Memory)
			}
		})
	}
}

// TestReadersAtOnce: two pages that are asked for at the same time both have a cgroup.
func TestReadersAtOnce(t *testing.T) {
	r := v1(t)
	r.slow = time.Minute
	var both sync.WaitGroup
	both.Add(2)
	r.took = func() { // neither is read before the other is being read
		both.Done()
		both.Wait()
	}
	found := make(chan bool)
	for range 2 {
		go func() {
			_, ok := r.One(box)
			found <- ok
		}()
	}
	for range 2 {
		if !<-found {
			t.Error("one of them does not have it")
			both.Done() // the other one waits
		}
	}
}

func pathsOf(list []Group) (out []string) {
	for _, g := range list {
		out = append(out, g.Path)
	}
	return out
}

// TestFilesystems: those that are on disks, once each, with the figures of their disk.
func TestFilesystems(t *testing.T) {
	r := v1(t)
	r.size = func(path string, fs *Filesystem) bool {
		fs.Size, fs.Used, fs.Inodes, fs.InodesFree = 1000, 400, 50, 20
		return path != "/broken"
	}
	tree(t, filepath.Dir(r.proc), map[string]string{
		"proc/self/mountinfo": "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n23 22 0:5 / /proc rw - proc proc rw\n24 22 8:1 /x /bind rw - ext4 /dev/sda1 rw\n25 22 8:2 / /broken rw - ext4 /dev/sda2 rw\n",
		"proc/diskstats":      "   8       0 sda 9 9 9 9 9 9 9 9 9 9 9 0 0 0 0\n   8       1 sda1 100 2 300 40 500 6 700 80 9 1000 1100 0 0 0 0\n"})
	g, ok := r.bounded("/", true)
	want := []Filesystem{{"/dev/sda1", 1000, 400, 50, 20, 2, 300, 40, 6, 700, 80, 9, 1000, 1100}}
	if !ok || !slices.Equal(g.Filesystems, want) {
		t.Errorf("%+v", g.Filesystems)
	}
}

// TestTrees: the cgroups of pods and containers, and others that were asked for; those that are away are left out.
func TestTrees(t *testing.T) {
	for name, r := range map[string]*Reader{"v1": v1(t), "v2": v2(t)} {
		want :=
			"[/ /kubepods /kubepods/besteffort /kubepods/burstable /kubepods/burstable/podu1 /kubepods/burstable/podu1/c1]"
		if got := fmt.Sprint(pathsOf(r.Trees(t.Context(), pods, "/", "/gone"))); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if _, ok := r.One("/gone"); ok {
			t.Errorf("%s: one that is away", name)
		}
	}
}

// TestSlices: the cgroups that systemd makes are found too.
func TestSlices(t *testing.T) {
	const top = "/n.slice/n-kubepods.slice"
	want := []string{top, top + "/n-kubepods-burstable.slice", top + "/n-kubepods-podu_1.slice",
		top + "/n-kubepods-podu_1.slice/cri-containerd-c1.scope",
		top + "/n-kubepods-burstable.slice/n-kubepods-burstable-podu2.slice",
		top + "/n-kubepods-burstable.slice/n-kubepods-burstable-podu2.slice/crio-c2.scope"}
	dir := t.TempDir()
	files := map[string]string{"cgroup.controllers": "cpu memory\n",
		top[1:] + "/n-kubepods-other.slice/memory.current": "1\n"}
	for _, group := range want {
		files[group[1:]+"/memory.current"] = "8000\n"
	}
	tree(t, dir, files)
	r := at(dir, dir, dir)
	if got := pathsOf(r.Trees(t.Context(), top)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := pathsOf(r.Trees(t.Context(), "", "/n.slice")); !slices.Equal(got, []string{"/n.slice"}) {
		t.Errorf("as long as the cgroup of pods is not known: %q", got)
	}
}

// TestOneThatHangs: a cgroup whose files hang costs the others one wait, and later ones none.
func TestOneThatHangs(t *testing.T) {
	r := v1(t)
	release := make(chan struct{})
	var calls atomic.Int32
	r.took = func() {
		if calls.Add(1) == 3 {
			<-release
		}
	}
	began := time.Now()
	if got := len(r.Trees(t.Context(), pods, "/")); got != 5 {
		t.Errorf("%d cgroups, want all but the one that hangs", got)
	}
	if took := time.Since(began); took < slow || took > 4*slow {
		t.Errorf("it took %v", took)
	}

	began = time.Now()
	if got := len(r.Trees(t.Context(), pods, "/")); got != 5 || time.Since(began) > slow {
		t.Errorf("%d cgroups in %v", got, time.Since(began))
	}
	close(release)
	for try := 0; len(r.Trees(t.Context(), pods, "/")) != 6; try++ {
		if try > 100 {
			t.Fatal("it is not read again")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestProcess: a program that has no cgroup of its own.
func TestProcess(t *testing.T) {
	dir := t.TempDir()
	fields := make([]string, 50)
	for i := range fields {
		fields[i] = fmt.Sprint(i + 3) // the number of the field in proc_pid_stat(5)
	}
	tree(t, dir, map[string]string{"70/stat": "70 (a b) c) " + strings.Join(fields, " "),
		"70/cgroup": "4:memory:/a/b\n1:cpu:/\n0::/c\n"})
	r := at("/nowhere", dir, "/nowhere")
	g, ok := r.Process(70)
	if !ok || g.CPU.User != 14e7 || g.CPU.System != 15e7 || g.CPU.Total != 29e7 || g.Memory.Faults != 10 ||
		g.Memory.MajorFaults != 12 || g.Memory.RSS != uint64(24*os.Getpagesize()) {
		t.Errorf("%v %+v %+v", ok, g.CPU, g.Memory)
	}
	if got := r.OfProcess(70); got != "/a/b" {
		t.Errorf("cgroup %s", got)
	}

	r.unified = true
	if got := r.OfProcess(70); got != "/c" {
		t.Errorf("cgroup %s with version 2", got)
	}
	if _, ok := r.Process(71); ok || r.OfProcess(71) != "" {
		t.Error("a process that is gone")
	}
	var none *Reader
	if _, ok := none.One("/"); ok || none.Trees(t.Context(), "/") != nil || none.OfProcess(1) != "" {
		t.Error("a machine without cgroups")
	}
}
