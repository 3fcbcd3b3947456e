package platform

import "porthole.dev/porthole/internal/winbuild"

// CheckBuild returns a *winbuild.TooOldError if this Windows is too old for a node. It returns nil otherwise, and if
// the version cannot be read.
func CheckBuild() error {
	var h Host
	readVersion(&h)
	v, _ := winbuild.ParseVersion(h.WindowsRelease)
	return winbuild.CheckNode(v.Build)
}
