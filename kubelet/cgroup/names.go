package cgroup

import (
	"path"
	"strings"
)

// With systemd, cgroups are units. A slice has the names of all slices above it in its own:
//
//	files:   /kubepods/burstable/pod1-2/<id>
//	systemd: /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-<id>.scope
const (
	sliceSuffix = ".slice"
	scopeSuffix = ".scope"
)

// scopePrefixes are what runtimes put before a container's ID in the name of its scope (containerd, CRI-O).
var scopePrefixes = []string{"cri-containerd-", "crio-"}

// slicePath returns where the slice with these names, from the top, is in the tree. A dash separates names, so that
// one within a name becomes an underscore, as with upstream.
func slicePath(names []string) string {
	at, whole := "/", ""
	for _, name := range names {
		if whole != "" {
			whole += "-"
		}
		whole += strings.ReplaceAll(name, "-", "_")
		at = path.Join(at, whole+sliceSuffix)
	}
	return at
}

// NameIn returns the name of a cgroup without those of the cgroups above it: burstable for burstable in /kubepods, and
// for kubepods-burstable.slice in /kubepods.slice; the ID for the scope of a container.
func NameIn(group string) string {
	name := path.Base(group)
	if scope, ok := strings.CutSuffix(name, scopeSuffix); ok {
		for _, prefix := range scopePrefixes {
			if id, ok := strings.CutPrefix(scope, prefix); ok {
				return id
			}
		}
		return name
	}
	own, isSlice := strings.CutSuffix(name, sliceSuffix)
	if !isSlice {
		return name
	}
	if above, ok := strings.CutSuffix(path.Base(path.Dir(group)), sliceSuffix); ok {
		own = strings.TrimPrefix(own, above+"-")
	}
	return strings.ReplaceAll(own, "_", "-")
}
