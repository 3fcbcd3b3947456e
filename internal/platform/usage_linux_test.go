package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Row 1.104.
func TestReadUsage(t *testing.T) {
	u, err := ReadUsage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for what, ok := range map[string]bool{
		"processor": u.CPUNanoseconds > 0 && !u.Boot.IsZero(),
		"memory": u.MemoryTotal > u.MemoryUsed && u.MemoryUsed >= u.MemoryWorkingSet && u.MemoryWorkingSet > 0 &&
			u.MemoryFaults > 0 && u.SwapFree <= u.SwapTotal,
		"disk":   u.DiskTotal >= u.DiskFree && u.DiskTotal > 0,
		"tasks":  u.Tasks > 0 && u.MaxTasks >= u.Tasks,
		"itself": u.OwnMemory > 1<<20 && u.OwnMemory < u.MemoryTotal,
		"commit": u.CommitLimit == 0,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, u)
		}
	}
}

func TestRootGroup(t *testing.T) {
	const v1, v2 = "inactive_file 1\ntotal_inactive_file 30\n", "anon 40\nfile 50\ninactive_file 30\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"version 1": {map[string]string{"memory/memory.usage_in_bytes": "100\n",
			"memory/memory.stat": v1}, "100 30 <nil>"},
		"version 2 in a namespace": {map[string]string{"cgroup.controllers": "memory", "memory.current": "100\n",
			"memory.stat": v2}, "100 30 <nil>"},
		"version 2 of the machine": {map[string]string{"cgroup.controllers": "memory", "memory.stat": v2},
			"90 30 <nil>"},
		"version 2 beside, hybrid": {map[string]string{"unified/cgroup.controllers": "",
			"memory/memory.usage_in_bytes": "7\n", "memory/memory.stat": v1}, "7 30 <nil>"},
		"version 2 without figures": {map[string]string{"cgroup.controllers": ""},
			"0 0 open memory.stat: no such file or directory"},
		"no cgroups": {nil, "0 0 open memory/memory.stat: no such file or directory"},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755),
				os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.ReplaceAll(fmt.Sprintln(rootGroup(dir)), dir+"/", ""); got != c.want+"\n" {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestParseInterfaces(t *testing.T) {
	const table = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
  eth0:1000 2 3 4 5 6 7 8 2000 10 11 12 13 14 15 16
 cni0: 5 0 0 0 0 0 0 0 6 0 0 0 0 0 0 0
`
	const routes = "Iface\tDestination\tGateway\ncni0\t0000F40A\t00000000\neth0\t00000000\t0102000A\n"
	want := "[{eth0 true 1000 3 2000 11} {cni0 false 5 0 6 0}]"
	if got := fmt.Sprint(parseInterfaces(table, routes)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprint(parseInterfaces(table, "")); got != "[{eth0 false 1000 3 2000 11} {cni0 false 5 0 6 0}]" {
		t.Errorf("without routes: %s", got)
	}
}

func TestHugePages(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"hugepages-2048kB": "32\n", "hugepages-1048576kB": "0\n",
		"other": "7\n"} {
		if err := os.MkdirAll(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name+"/nr_hugepages", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(hugePages(dir)); got != "map[2097152:67108864 1073741824:0]" {
		t.Errorf("%s", got)
	}
	if got := hugePages(dir + "/absent"); len(got) > 0 {
		t.Errorf("a kernel without them: %v", got)
	}
}
