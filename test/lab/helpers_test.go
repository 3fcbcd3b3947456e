package lab

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"porthole.dev/porthole/internal/platform"
)

// netnsOf is the network namespace that tests call porthole-NAME, as it is in a cluster without a name. A cluster
// with one, which PORTHOLE_LAB_DIR may be, has others.
func netnsOf(netns string) string {
	return namePrefix() + strings.TrimPrefix(netns, "porthole-")
}

// namePrefix is what names of the cluster's namespaces begin with.
var namePrefix = sync.OnceValue(func() string {
	const node = "lin01"
	var host struct{ Netns string }
	data, err := os.ReadFile(filepath.Join(dir, "hosts", node, "host.json"))
	if err == nil {
		err = json.Unmarshal(data, &host)
	}
	if err != nil {
		panic(err) // `porthole up` has made it
	}
	return strings.TrimSuffix(host.Netns, node)
})

func platformInNetns(netns string, f func() error) error {
	return platform.InNetns(platform.NetnsPath(netnsOf(netns)), f)
}

// startInNetns starts a program, which the caller must end.
func startInNetns(netns string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(args[0], args[1:]...)
	return cmd, platform.StartInNetns(platform.NetnsPath(netnsOf(netns)), cmd)
}

func sorted(lines []string) string {
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
