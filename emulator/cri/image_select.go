package cri

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// selectManifest picks, from an index, the image that a Windows host of this build runs in process isolation: the same
// os, architecture and build; of several, the newest revision comes first, as the index lists them otherwise.
func selectManifest(name string, of []v1.Descriptor, arch string, build int) (v1.Descriptor, error) {
	var best v1.Descriptor
	var have []string
	for _, d := range of {
		if d.Platform == nil {
			continue
		}
		have = append(have, describe(*d.Platform))
		if matches(*d.Platform, arch, build) && (best.Digest == "" || revision(d.Platform.OSVersion) > revision(best.Platform.OSVersion)) {
			best = d
		}
	}
	if best.Digest == "" {
		return best, noMatch(name, have, arch, build)
	}
	return best, nil
}

// noMatch names what there is and what the node needs, so that the event on the pod is enough to act on.
func noMatch(name string, have []string, arch string, build int) error {
	slices.Sort(have)
	return fmt.Errorf("image %s has nothing for this node, which is windows/%s 10.0.%d: the image comes for %s",
		name, arch, build, strings.Join(slices.Compact(have), ", "))
}

func describe(p v1.Platform) string {
	s := p.OS + "/" + p.Architecture
	if p.OSVersion != "" {
		s += " " + p.OSVersion
	}
	return s
}

// matches reports whether a host of the build runs the image. An image that names no version is taken on trust, as on
// Windows.
func matches(p v1.Platform, arch string, build int) bool {
	if p.OS != "windows" || p.Architecture != arch {
		return false
	}
	return p.OSVersion == "" || strings.HasPrefix(p.OSVersion+".", fmt.Sprintf("10.0.%d.", build))
}

// revision is the last part of 10.0.20348.3695.
func revision(version string) int {
	n := -1
	if parts := strings.Split(version, "."); len(parts) == 4 {
		fmt.Sscanf(parts[3], "%d", &n)
	}
	return n
}
