package lab

import (
	"os/exec"
	"sort"
	"strings"

	"porthole.dev/porthole/internal/platform"
)

func platformInNetns(netns string, f func() error) error {
	return platform.InNetns(platform.NetnsPath(netns), f)
}

// startInNetns starts a program, which the caller must end.
func startInNetns(netns string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(args[0], args[1:]...)
	return cmd, platform.StartInNetns(platform.NetnsPath(netns), cmd)
}

func sorted(lines []string) string {
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
