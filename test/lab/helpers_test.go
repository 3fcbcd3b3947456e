package lab

import (
	"os/exec"
	"sort"
	"strings"

	"porthole.dev/porthole/internal/platform"
)

// ofCluster is what a namespace of the lab is called, if its cluster has a name: then that is part of it.
func ofCluster(netns string) string {
	if node, ok := strings.CutPrefix(netns, "porthole-"); ok && clusterName != "" {
		return "porthole." + clusterName + "-" + node
	}
	return netns
}

func platformInNetns(netns string, f func() error) error {
	return platform.InNetns(platform.NetnsPath(ofCluster(netns)), f)
}

// startInNetns starts a program, which the caller must end.
func startInNetns(netns string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(args[0], args[1:]...)
	return cmd, platform.StartInNetns(platform.NetnsPath(ofCluster(netns)), cmd)
}

func sorted(lines []string) string {
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
