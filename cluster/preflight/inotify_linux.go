package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/cluster/config"
)

// inotifyLimit is how many inotify instances all programs of a user may have together; a distribution's default is 128.
const inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"

// How many inotify instances each part of a local cluster has open once it is up. The numbers were counted on running
// clusters with `find /proc/[0-9]*/fd -lname anon_inode:inotify`. On a Linux node containerd has two, kube-proxy one,
// and the kubelet one if it is ours and six if it is upstream's. An emulated Windows node has one, and one more while
// a program there watches a folder.
const (
	inotifyOfControlPlane = 13
	inotifyOfLinuxNode    = 4
	inotifyOfWindowsNode  = 2

	moreOfUpstreamKubelet = 5
)

// checkInotify returns an error if the machine's limit leaves too few inotify instances for a cluster with these
// nodes. Programs that get none end or no longer see changed files, containerd.exe for example with "fsnotify: queue
// or buffer overflow".
func checkInotify(c config.Cluster) error {
	data, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return nil //nolint:nilerr // a kernel without inotify says so when a program asks for it
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("%s: %w", inotifyLimit, err)
	}
	return inotifyLack(limit, inotifyUsed(), inotifyNeed(c))
}

// inotifyNeed is how many instances a cluster takes.
func inotifyNeed(c config.Cluster) int {
	linux := inotifyOfLinuxNode
	if c.LinuxKubelet == config.KubeletUpstream {
		linux += moreOfUpstreamKubelet
	}
	return inotifyOfControlPlane + linux*c.LinuxNodes + inotifyOfWindowsNode*c.WindowsNodes
}

// inotifyLack returns an error that names the setting if fewer than need instances of limit are free.
func inotifyLack(limit, used, need int) error {
	if limit-used >= need {
		return nil
	}
	return fmt.Errorf(
		"fs.inotify.max_user_instances is %d, of which %d are in use, and this cluster takes about %d: sysctl fs.inotify.max_user_instances=%d",
		limit, used, need, 1024*(1+(used+need)/1024))
}

// inotifyUsed counts the instances of all processes. What it cannot read it does not count.
func inotifyUsed() int {
	used := 0
	folders, _ := filepath.Glob("/proc/[0-9]*/fd")
	for _, folder := range folders {
		used += inotifyIn(folder)
	}
	return used
}

// inotifyIn counts the inotify instances among the open files of a process.
func inotifyIn(folder string) int {
	used := 0
	files, _ := os.ReadDir(folder) // none if the process has ended
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil && to == "anon_inode:inotify" {
			used++
		}
	}
	return used
}
