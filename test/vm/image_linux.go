package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// packages are installed beside Debian's minbase. tools/sample asks pods with curl.
var packages = []string{"systemd-sysv", "dbus", "linux-image-amd64", "kmod", "udev", "curl"}

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

// furnish adds the agent with its unit to a root file system, and copies files and folders: keys are paths of
// this machine, values the places below root.
func furnish(root, agent string, folders map[string]string) error {
	const wanted = "etc/systemd/system/multi-user.target.wants"
	if err := os.MkdirAll(filepath.Join(root, wanted), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "etc/systemd/system/agent.service"), []byte(unit), 0o644); err != nil {
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
