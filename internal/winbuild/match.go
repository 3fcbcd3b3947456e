package winbuild

import "strings"

// Isolation is the isolation mode of a Windows container.
type Isolation int

const (
	// Process is a container that shares the kernel of its host. It is the default.
	Process Isolation = iota
	// HyperV is a container with a kernel of its own, in a small virtual machine.
	HyperV
	// HostProcess is no isolation: a process of the host that takes its files from an image.
	HostProcess
	// UnknownIsolation is the isolation of a runtime handler whose name is not known.
	UnknownIsolation
)

func (i Isolation) String() string {
	switch i {
	case Process:
		return "process"
	case HyperV:
		return "Hyper-V"
	case HostProcess:
		return "host process"
	}
	return "unknown"
}

// IsolationOf returns the isolation that a handler of containerd on Windows gives. The two names are those of
// containerd's default configuration (internal/cri/config/config_windows.go); administrators name others after the
// same pattern, for example runhcs-wcow-hypervisor-17763 in AKS.
func IsolationOf(handler string) Isolation {
	switch {
	case handler == "", handler == "runhcs-wcow-process":
		return Process
	case strings.HasPrefix(handler, "runhcs-wcow-hyper"):
		return HyperV
	}
	return UnknownIsolation
}

// Rule is one rule of which images run on which hosts. Its zero value is no rule.
type Rule struct {
	// Runs reports whether a container starts.
	Runs bool `json:"runs"`
	// Text is the rule in words, for users.
	Text string `json:"rule"`
	// Source is the document that the rule is from.
	Source string `json:"source"`
}

// Documents that the rules come from.
const (
	compatibilityPage = "learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility"
	portabilityPage   = "learn.microsoft.com/virtualization/windowscontainers/deploy-containers/portability; github.com/containerd/platforms platform_windows_compat.go"
	hostProcessPage   = "kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod"
)

// The rules. Every pair of builds falls under exactly one for each isolation.
var (
	ruleNewer  = Rule{false, "an image of a newer build than the host's runs in no isolation", compatibilityPage}
	ruleHyperV = Rule{true, "with Hyper-V isolation a host runs images of its own build and of older ones",
		compatibilityPage}
	ruleSame = Rule{true, "a host runs images of its own build; the revision does not matter from 1809 on",
		compatibilityPage}
	ruleRevision = Rule{false, "before version 1809 the revision of the image must be that of the host, too",
		compatibilityPage}
	ruleStable = Rule{true,
		"from Windows Server 2022 on, a host also runs images of older builds, back to the previous long-term release",
		portabilityPage}
	ruleOlder       = Rule{false, "an image of an older build needs Hyper-V isolation", compatibilityPage}
	ruleHostProcess = Rule{true, "a HostProcess container takes only files from its image, of whatever build",
		hostProcessPage}
)

// stable are the long-term releases with a stable interface between the parts of Windows in the image and those on the
// host, oldest first.
var stable = []Build{Server2022, Server2025}

// firstFreeRevision is the first build that does not compare revisions.
const firstFreeRevision = Server2019

// Match returns the rule for a container of an image on a host. For UnknownIsolation it returns the zero Rule, from
// which nothing follows.
func Match(host, image Version, i Isolation) Rule {
	switch {
	case i == HostProcess:
		return ruleHostProcess
	case i != Process && i != HyperV:
		return Rule{}
	case image.Build > host.Build:
		return ruleNewer
	case i == HyperV:
		return ruleHyperV
	case image.Build == host.Build:
		if host.Build < firstFreeRevision && image.Revision >= 0 && host.Revision >= 0 &&
			image.Revision != host.Revision {
			return ruleRevision
		}
		return ruleSame
	case image.Build >= oldestStable(host.Build):
		return ruleStable
	}
	return ruleOlder
}

// oldestStable returns the oldest build whose images a host runs in process isolation by the stable interface: the
// long-term release before the host's own. For a host before Windows Server 2022 it is the host's build itself.
//
// This is the rule of containerd/platforms (platform_windows_compat.go). That of hcsshim
// (osversion/platform_compat_windows.go) differs for hosts newer than the newest long-term release in its list: there
// it begins with that release. No release of Windows Server is that new yet.
func oldestStable(host Build) Build {
	if host < stable[0] {
		return host
	}
	at := 0
	for i, b := range stable {
		if host >= b {
			at = i
		}
	}
	return stable[max(at-1, 0)]
}

// Fitting returns the releases whose images a host runs in this isolation, oldest first. The host's own build is among
// them also if it is no release.
func Fitting(host Build, i Isolation) []Build {
	var out []Build
	for _, b := range Releases() {
		if Match(Version{host, -1}, Version{b, -1}, i).Runs {
			out = append(out, b)
		}
	}
	if host.Name() == "" && Match(Version{host, -1}, Version{host, -1}, i).Runs {
		out = append(out, host)
	}
	return out
}
