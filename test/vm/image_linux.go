package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// packages are installed beside Debian's minbase. tools/sample asks pods with curl. QEMU is that of Debian 13 too,
// and runs from the same folder: under the TCG of QEMU 7.2 the kernel panicked once in 25 minutes, at a place where
// it changes its own code ("Oops: int3: 0000 … __schedule").
var packages = []string{"systemd-sysv", "dbus", "linux-image-amd64", "kmod", "udev", "curl", "qemu-system-x86"}

// unit is the systemd unit of the agent. The cluster is started from the unit's cgroup, as a user's would be
// from that of a session, and outlives it.
const unit = `[Unit]
Description=Runs the scripts of the test
[Service]
ExecStart=/agent
KillMode=process
TasksMax=infinity
[Install]
WantedBy=multi-user.target
`

// plainInit is the path of a first process that does what a cluster needs, and nothing else: no cgroup of systemd
// is there. Debian's initrd has mounted /proc, /sys, /dev and /run. bash collects the orphans that end.
const plainInit = "/plain-init"

const plainInitScript = `#!/bin/bash
mount -t cgroup2 cgroup2 /sys/fs/cgroup
/agent &
while :; do wait; sleep 1; done
`

// furnish adds the agent with its unit, and plainInit, to a root file system, and copies files and folders: keys are
// paths of this machine, values the places below root.
func furnish(root, agent string, folders map[string]string) error {
	const wanted = "etc/systemd/system/multi-user.target.wants"
	if err := os.MkdirAll(filepath.Join(root, wanted), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "etc/systemd/system/agent.service"), []byte(unit), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, plainInit), []byte(plainInitScript), 0o755); err != nil {
		return err
	}

	link := filepath.Join(root, wanted, "agent.service")
	if err := os.Symlink("../agent.service", link); err != nil && !os.IsExist(err) {
		return err
	}
	folders[agent] = "agent"
	for from, to := range folders {
		into := filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(into), 0o755); err != nil {
			return err
		}
		if out, err := exec.Command("cp", "-aT", from, into).CombinedOutput(); err != nil {
			return fmt.Errorf("copying %s: %w: %s", from, err, out)
		}
	}
	return nil
}

// makeDisk makes a file with an ext4 file system of a folder's files. Only what is used takes space.
func makeDisk(file, root, size string) error {
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-d", root, file, size).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return nil
}
