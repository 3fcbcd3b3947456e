package cri

import (
	"fmt"
	"slices"

	"github.com/containerd/platforms"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// matcher compares platforms with that of the host as containerd on Windows does: by its own code.
func (o Options) matcher() platforms.Matcher {
	return platforms.NewMatcher(v1.Platform{OS: "windows", Architecture: o.Arch, OSVersion: fmt.Sprintf("10.0.%d", o.Build)})
}

// selectManifest picks, from an index, the entry that containerd on a Windows host picks (core/images.Manifest, and platforms.Default on
// Windows): of those that fit, the one whose os.version comes last as text, so that revision 999 goes before revision 3695. An
// entry without a platform comes last; its configuration shows whether it fits. It returns false if none fits.
func selectManifest(of []v1.Descriptor, host platforms.Matcher) (v1.Descriptor, bool) {
	fit := slices.DeleteFunc(slices.Clone(of), func(d v1.Descriptor) bool { return d.Platform != nil && !host.Match(*d.Platform) })
	slices.SortStableFunc(fit, func(a, b v1.Descriptor) int {
		switch {
		case a.Platform == nil && b.Platform == nil:
			return 0
		case a.Platform == nil:
			return 1
		case b.Platform == nil:
			return -1
		case a.Platform.OSVersion > b.Platform.OSVersion:
			return -1
		case a.Platform.OSVersion < b.Platform.OSVersion:
			return 1
		}
		return 0
	})
	if len(fit) == 0 {
		return v1.Descriptor{}, false
	}
	return fit[0], true
}

// noMatchError is containerd's answer to an index without an entry for the host.
type noMatchError struct{ top v1.Descriptor }

func (e noMatchError) Error() string {
	return fmt.Sprintf("no match for platform in manifest %s: not found", e.top.Digest)
}

// NotFound marks the error as containerd does.
func (noMatchError) NotFound() {}

// mismatch is the error 0xc0370101 of the Host Compute Service for a container whose image is for a build that the host does not run. Its
// text is from reports about containerd, for example gitlab.com/gitlab-org/gitlab-runner/-/issues/29058.
const mismatch = "hcs::CreateComputeSystem %s: The container operating system does not match the host operating system.: unknown"
