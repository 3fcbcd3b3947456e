package vm

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/archive"
)

// TestVMImage runs the image of a cluster with Podman, on a machine with systemd and cgroup v2 alone: in a cgroup
// namespace of the container's own, and in the machine's.
func TestVMImage(t *testing.T) {
	var image string
	v := newVM(t, []string{"podman", "netavark", "nftables"}, func(base string) (files map[string]string, err error) {
		var file string
		file, image, err = archive.Image("../..", base)
		return map[string]string{file: "image.tar", filepath.Join("../..", "bin/bundle/kube"): "kube"}, err
	})
	v.boot()
	v.step("cgroup v2", time.Minute, onlyCgroup2)
	v.step("load", 10*time.Minute, "podman load -i /image.tar")
	for _, cgroups := range []string{"private", "host"} {
		v.step(cgroups, 20*time.Minute, runImage(image, cgroups, v.windowsNodes()))
	}
}

// runImage is a script that runs a container until its cluster is up, asks the API server from outside for the
// nodes, and ends the container.
func runImage(image, cgroups string, windowsNodes int) string {
	return fmt.Sprintf(`set -e
name=cluster-%[2]s volume=/volume-%[2]s
mkdir "$volume"
trap 'podman logs "$name"' EXIT
podman run --detach --name "$name" --privileged --cgroupns %[2]s --publish 127.0.0.1:6443:6443 \
	--volume "$volume":/var/lib/porthole %[1]s \
	up --foreground --listen 0.0.0.0 --time-scale %[3]s --windows-nodes %[4]d
until podman logs "$name" 2>&1 | grep -q 'the cluster stays'; do
	[ "$(podman inspect --format '{{.State.Status}}' "$name")" = running ]
	sleep 5
done
/kube kubectl --kubeconfig "$volume/kubeconfig" get nodes | tee /nodes
[ "$(grep -c ' Ready ' /nodes)" = %[5]d ]
podman stop --time 600 "$name"
[ "$(podman inspect --format '{{.State.ExitCode}}' "$name")" = 0 ]
podman logs "$name"
trap - EXIT
podman rm "$name"
rm -r "$volume"
`, image, cgroups, scale, windowsNodes, windowsNodes+1) + nothingLeft
}
