package main

import (
	"fmt"
	"testing"
)

// TestMounting: the hierarchies of cgroups of a machine, of each version and of both, are mounted again below a folder.
func TestMounting(t *testing.T) {
	const hybrid = `tmpfs /sys/fs/cgroup tmpfs ro 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
`
	got := fmt.Sprint(hierarchies(hybrid))
	if want :=
		"[{/sys/fs/cgroup/memory cgroup rw,relatime,memory} {/sys/fs/cgroup/systemd cgroup none,rw,xattr,name=systemd} {/sys/fs/cgroup/unified cgroup2 rw,relatime}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	for mounts, want := range map[string]string{
		"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0": `umount -Rl /sys/fs/cgroup
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/cpu
mount -t cgroup -o rw,cpu cgroup /sys/fs/cgroup/cpu
`,
		"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0": `umount -Rl /sys/fs/cgroup
mkdir -p /sys/fs/cgroup
mount -t cgroup2 -o rw cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/init
echo 0 >/sys/fs/cgroup/init/cgroup.procs
`} {
		if got := mounting(hierarchies(mounts)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
