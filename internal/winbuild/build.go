// Package winbuild holds what follows from the build number of a Windows Server: its name, which container images run
// on it, and which features it lacks for a node. It is pure: the numbers come in as arguments.
package winbuild

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Build is the build number of a release of Windows, the third part of 10.0.20348.3695. Zero is a build that is not
// known.
type Build int

// Releases of Windows Server that have containers (hcsshim osversion/windowsbuilds.go; Microsoft's "Windows Server
// release information").
const (
	Server2016 Build = 14393
	Server1709 Build = 16299
	Server1803 Build = 17134
	Server2019 Build = 17763 // also called version 1809
	Server1903 Build = 18362
	Server1909 Build = 18363
	Server2004 Build = 19041
	Server20H2 Build = 19042
	Server2022 Build = 20348
	Server23H2 Build = 25398
	Server2025 Build = 26100
)

var names = map[Build]string{
	Server2016: "Windows Server 2016",
	Server1709: "Windows Server, version 1709",
	Server1803: "Windows Server, version 1803",
	Server2019: "Windows Server 2019",
	Server1903: "Windows Server, version 1903",
	Server1909: "Windows Server, version 1909",
	Server2004: "Windows Server, version 2004",
	Server20H2: "Windows Server, version 20H2",
	Server2022: "Windows Server 2022",
	Server23H2: "Windows Server, version 23H2",
	Server2025: "Windows Server 2025",
}

// Releases returns the builds that have a name, oldest first.
func Releases() []Build {
	var out []Build
	for b := range names {
		out = append(out, b)
	}
	slices.Sort(out)
	return out
}

// Name returns the name of the release, or "" for a build that is no release of Windows Server.
func (b Build) Name() string { return names[b] }

// String returns the number and, if it has one, the name: "20348 (Windows Server 2022)".
func (b Build) String() string {
	if name := b.Name(); name != "" {
		return fmt.Sprintf("%d (%s)", int(b), name)
	}
	return strconv.Itoa(int(b))
}

// List returns builds as text, oldest first and each once: "17763 (Windows Server 2019), 20348 (Windows Server 2022)".
func List(builds []Build) string {
	builds = slices.Clone(builds)
	slices.Sort(builds)
	var out []string
	for _, b := range slices.Compact(builds) {
		out = append(out, b.String())
	}
	return strings.Join(out, ", ")
}

// Version is a version of Windows 10.0, as in os.version of an image.
type Version struct {
	Build Build
	// Revision counts the updates of the build; -1 if the text names none.
	Revision int
}

// ParseVersion parses 10.0.<build> or 10.0.<build>.<revision>. It returns false for everything else: earlier versions
// of Windows than 10.0 have no containers, and there is no later one.
func ParseVersion(text string) (Version, bool) {
	parts := strings.Split(text, ".")
	if len(parts) < 3 || len(parts) > 4 || parts[0] != "10" || parts[1] != "0" {
		return Version{}, false
	}
	// 16 bits, as in containerd/platforms and in Windows' own structure
	build, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil || build == 0 {
		return Version{}, false
	}

	v := Version{Build: Build(build), Revision: -1}
	if len(parts) == 4 {
		revision, err := strconv.ParseUint(parts[3], 10, 31)
		if err != nil {
			return Version{}, false
		}
		v.Revision = int(revision)
	}
	return v, true
}

// ParseBuild parses a build as users give it: 20348, 10.0.20348, 10.0.20348.3695, or a tag of Microsoft's base images
// such as ltsc2022.
func ParseBuild(text string) (Build, error) {
	text = strings.TrimSpace(text)
	if b, ok := tags[strings.ToLower(text)]; ok {
		return b, nil
	}
	if v, ok := ParseVersion(text); ok {
		return v.Build, nil
	}
	if v, ok := ParseVersion("10.0." + text); ok && v.Revision < 0 {
		return v.Build, nil
	}
	return 0,
		fmt.Errorf(
			"%q is no build of Windows; it is a number such as 20348, or one of ltsc2016, ltsc2019, ltsc2022, ltsc2025",
			text)
}

// tags are the names that Microsoft's base images give to builds.
var tags = map[string]Build{"ltsc2016": Server2016, "ltsc2019": Server2019, "ltsc2022": Server2022,
	"ltsc2025": Server2025}
