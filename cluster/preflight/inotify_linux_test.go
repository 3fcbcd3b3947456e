package preflight

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/config"
)

// TestInotifyInstances: an instance of this process is counted, and where too few are free the message names the
// setting and a value that suffices.
func TestInotifyInstances(t *testing.T) {
	before := inotifyIn("/proc/self/fd")
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if after := inotifyIn("/proc/self/fd"); after != before+1 {
		t.Errorf("%d instances with one more, %d before", after, before)
	}
	if all := inotifyUsed(); all <= before {
		t.Errorf("%d instances of all processes, %d of this one", all, before+1)
	}

	if err := inotifyLack(128, 28, 100); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		limit, used, need int
		want              string
	}{{128, 29, 100, "max_user_instances=1024"}, {1024, 900, 500, "max_user_instances=2048"}} {
		if err := inotifyLack(c.limit, c.used, c.need); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d of %d in use, %d needed: %v", c.used, c.limit, c.need, err)
		}
	}
}

func TestInotifyNeed(t *testing.T) {
	c := config.Cluster{LinuxNodes: 2, WindowsNodes: 1}
	if got := inotifyNeed(c); got != 13+2*4+2 {
		t.Errorf("with our kubelet: %d", got)
	}
	c.LinuxKubelet = config.KubeletUpstream
	if got := inotifyNeed(c); got != 13+2*9+2 {
		t.Errorf("with upstream's kubelet: %d", got)
	}
}
