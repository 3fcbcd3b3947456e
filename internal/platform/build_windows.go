package platform

import "porthole.dev/porthole/internal/winbuild"

// CheckBuild returns a *winbuild.TooOldError on a Windows that is too old for a node, and nil otherwise. A version that cannot be read
// is left to what comes after.
func CheckBuild() error {
	var h Host
	readVersion(&h)
	v, _ := winbuild.ParseVersion(h.WindowsRelease)
	return winbuild.CheckNode(v.Build)
}
