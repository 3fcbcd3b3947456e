package platform

import (
	"fmt"
	"os"
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
		"memory":    u.MemoryTotal > u.MemoryAvailable && u.MemoryWorkingSet > 0 && u.MemoryFaults > 0 && u.SwapFree <= u.SwapTotal,
		"disk":      u.DiskTotal >= u.DiskFree && u.DiskTotal > 0,
		"tasks":     u.Tasks > 0 && u.MaxTasks >= u.Tasks,
		"itself":    u.OwnMemory > 1<<20 && u.OwnMemory < u.MemoryTotal,
		"commit":    u.CommitLimit == 0,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, u)
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
	for name, text := range map[string]string{"hugepages-2048kB": "32\n", "hugepages-1048576kB": "0\n", "other": "7\n"} {
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
