package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/join/step"
)

// Levels of a finding.
const (
	Pass    = "pass"
	Warning = "warning"
	Error   = "error"
	Reboot  = "reboot"  // the machine must be restarted first
	Ignored = "ignored" // an error that the user ignores
)

// finding is the outcome of one check; the zero value passes.
type finding struct{ level, text, cure string }

func fail(text, cure string) finding { return finding{Error, text, cure} }
func warn(text, cure string) finding { return finding{Warning, text, cure} }

// check is one check. always: an error cannot be ignored.
type check struct {
	name   string
	system string // "" for both
	always bool
	run    func(*Facts) finding
}

// checks in the order in which they are reported. Those of the cluster come last: they need the network.
func checks() []check {
	list := []check{
		{"IsPrivilegedUser", "", true, privileged},
		{"WindowsBuild", "windows", true, windowsBuild},
		{"ContainersFeature", "windows", true, containersFeature},
		{"RebootPending", "windows", false, rebootPending},
		{"Hns", "windows", false, hns},
		{"Nic", "", true, nic},
		{"CRI", "", false, cri},
		{"ExistingKubelet", "", true, existingKubelet},
		{"FileAvailable--etc-kubernetes-kubelet.conf", "", false, otherCluster},
	}

	for _, p := range ports {
		list = append(list, check{fmt.Sprintf("Port-%d", p), "", false, func(f *Facts) finding { return port(f, p) }})
	}

	return append(list, []check{
		{"Hostname", "", true, hostname},
		{"DiskSpace", "", false, disk},
		{"Memory", "", false, memory},
		{"Firewall", "windows", false, firewall},
		{"TestSigning", "windows", false, testSigning},
		{"OldEnvironment", "windows", false, oldEnvironment},
		{"Rras", "windows", false, rras},
		{"Path", "windows", false, path},
		{"Swap", "linux", false, swap},
		{"SystemVerification", "linux", false, cgroups},
		{"FileContent--proc-sys-net-ipv4-ip_forward", "linux", false, forwarding},
		{"Conntrack", "linux", false, conntrack},
		{"ServiceManager", "linux", false, systemd},
		{"HTTPProxy", "", false, proxies},
		{"CloudMetadata", "", false, cloud},
		{"ApiServer", "", true, problemOf("ApiServer")},
		{"Clock", "", true, clock},
		{"Discovery", "", true, problemOf("Discovery")},
		{"KubeletVersion", "", false, version},
		{"NodeName", "", true, nodeName},
		{"ClusterNetwork", "", true, clusterNetwork},
		{"Rbac", "", true, rbac},
		{"OpenVSwitch", "", false, openVSwitch},
		{"PauseImage", "windows", false, pauseImage},
	}...)
}

// ports of our programs: kubelet 10250 and 10248, kube-proxy 10256 and 10249, porthole-routes 10261.
var ports = []int{10250, 10248, 10256, 10249, 10261}

// Run carries out the checks. ignore has names whose errors become warnings, in any case of letters; "all" stands for
// all. Errors that cannot be ignored stay.
func Run(f *Facts, ignore []string) []step.Check {
	var out []step.Check
	for _, c := range checks() {
		if c.system != "" && c.system != f.System {
			continue
		}
		r := c.run(f)
		if r.level == "" {
			r.level = Pass
		}
		skip := slices.ContainsFunc(ignore,
			func(s string) bool { return strings.EqualFold(s, c.name) || strings.EqualFold(s, "all") })
		if skip && !c.always && (r.level == Error || r.level == Reboot) {
			r.level = Ignored
		}
		out = append(out, step.Check{Name: c.name, Result: r.level, Message: r.text, Cure: r.cure})
	}
	return out
}

// Names returns the names of all checks of a system.
func Names(system string) (names []string) {
	for _, c := range checks() {
		if c.system == "" || c.system == system {
			names = append(names, c.name)
		}
	}
	return names
}

// Outcome says what checks mean for the run: Refused, RebootRequired, or "" if nothing stands in the way.
func Outcome(list []step.Check) (outcome step.Outcome) {
	for _, c := range list {
		switch c.Result {
		case Error:
			return step.Refused
		case Reboot:
			outcome = step.RebootRequired
		}
	}
	return outcome
}

// Line words a check for users.
func Line(c step.Check) string {
	text := c.Name + ": " + c.Message
	if c.Cure != "" {
		text += " → " + c.Cure
	}
	return text
}

// nodeNameForm is RFC 1123's, which Kubernetes asks of names of nodes.
var nodeNameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

const maxName = 63

// maximum differences of the clocks.
const (
	clockWarning = time.Minute
	clockError   = 5 * time.Minute
)
