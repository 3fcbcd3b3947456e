package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// confined fails the test unless the processes of the only container, which has a wineserver, a launcher and a
// program, are in the same namespaces and cgroups and have no more than a container's capabilities.
func (h *host) confined() {
	h.t.Helper()
	systems, err := os.ReadDir(h.o.host().Path("systems"))
	check(h.t, err)
	if len(systems) != 1 {
		h.t.Fatalf("%d systems, want 1", len(systems))
	}
	key := systems[0].Name()
	data, err := os.ReadFile(filepath.Join(h.o.host().SystemDir(key), "pid"))
	check(h.t, err)
	first, err := strconv.Atoi(strings.TrimSpace(string(data)))
	check(h.t, err)
	pids, err := h.o.runtime().Pids(h.t.Context(), key)
	check(h.t, err)
	if len(pids) != 3 {
		h.t.Errorf("the container's cgroup has the processes %v, want wineserver, launcher and program", pids)
	}

	want := describe(h.t, first)
	for _, pid := range pids {
		if got := describe(h.t, pid); got != want {
			h.t.Errorf("process %d is not confined as the first one:\n%s\nwant\n%s", pid, got, want)
		}
	}
}

// describe says what confines a process.
func describe(t *testing.T, pid int) (text string) {
	t.Helper()
	for _, ns := range []string{"user", "ipc", "uts", "net", "pid", "mnt"} {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		check(t, err)
		text += link + "\n"
	}
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	check(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	for _, line := range regexp.MustCompile(`(?m)^(Uid|Gid|Groups|NoNewPrivs|Seccomp|Cap\w+):.*$`).
		FindAllString(string(status), -1) {
		text += line + "\n"
	}
	return text + string(cgroups)
}
