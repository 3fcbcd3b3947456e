package check

import "strings"

// hostFacts are what we assume of the machine, except for HNS and the container runtime.
var hostFacts = []Fact{
	{Number: 11, Line: "name.addresses", Fact: "Which addresses does the host's own name have?",
		Assume: "nothing: the address of the default route's adapter is the node's",
		Source: "antrea-io/antrea#1979; microsoft/SDN#315", holds: anything},
	{Number: 11, Line: "address.default", Fact: "Which IPv4 addresses has the adapter of the default route?",
		Assume: "at least one",
		Source: "`node/kubelet`", holds: not(oneOf("none", "failed"))},
	{Number: 20, Line: "uuid.registry",
		Fact:   "In which form does the registry hold the machine's UUID (SYSTEM\\HardwareConfig, LastConfig)?",
		Assume: "a GUID, with or without braces, in any case",
		Source: "upstream `pkg/kubelet/winstats` (getSystemUUID)", holds: isGUID},
	{Number: 21, Line: "dns.servers", Fact: "Which DNS servers do the adapters have?",
		Assume: "nothing: they are read for each pod",
		Source: "`internal/platform`", holds: not(oneOf("failed"))},
	{Number: 23, Line: "link.folder", Fact: "Can this account make a symbolic link to a folder?",
		Assume: "yes or no: volumes have a layout for each",
		Source: "`kubelet/volume/files`", holds: anything, Changes: true},
	{Number: 23, Line: "link.read", Fact: "Are files read through such a link?", Assume: "yes, where it can be made",
		Source: "`kubelet/volume/files`",
		holds:  oneOf("ok"), Changes: true},
	{Number: 23, Line: "link.replace", Fact: "Can a link to a folder be replaced by a rename?",
		Assume: "nothing: where not, a reader may find no link for a moment", Source: "`kubelet/volume/files`",
		holds: anything, Changes: true},
	{Number: 25, Line: "cpu.groups", Fact: "How many processor groups has the machine?",
		Assume: "nothing; GetSystemTimes counts one group",
		Source: "learn.microsoft.com GetSystemTimes", holds: anything},
	{Number: 42, Line: "file.rename-open",
		Fact:   "Can a file be renamed that another handle has open for writing with FILE_SHARE_DELETE?",
		Assume: "yes", Source: "`kubelet/logs`: rotation", holds: oneOf("ok"), Changes: true},
	{Number: 43, Line: "file.delete-open", Fact: "Is the name of such a file free at once after it was deleted?",
		Assume: "yes",
		Source: "POSIX semantics of Windows 10 1809; `kubelet/volume/disk`", holds: oneOf("ok"), Changes: true},
	{Number: 44, Line: "firewall.inbound", Fact: "Is inbound traffic blocked by default?",
		Assume: "nothing: rules by program are made by the installer",
		Source: "kubernetes-sigs/sig-windows-tools PrepareNode.ps1", holds: anything},
	{Number: 51, Line: "ovs.driver",
		Fact:   "Is Open vSwitch's extension of the virtual switch installed as a driver, and which file is it?",
		Assume: "nothing: only --mode ovn needs it", Source: "openvswitch/ovs `datapath-windows/ovsext/ovsext.inf`",
		holds: not(oneOf("failed"))},
	{Number: 51, Line: "ovs.driver.version", Fact: "Which version has that file?", Assume: "nothing",
		Source: "openvswitch/ovs", holds: anything},
	{Number: 51, Line: "ovs.driver.signature",
		Fact:   "Does Windows trust the signature in that file? (A catalog is not looked for)",
		Assume: "nothing: without one the driver loads only with test signing",
		Source: "openvswitch/ovs `Documentation/intro/install/windows.rst`", holds: anything},
	{Number: 51, Line: "boot.testsigning", Fact: "Did this Windows start with test signing?", Assume: "nothing",
		Source: "`bcdedit /set TESTSIGNING ON`", holds: anything},
}

func not(f func(string) bool) func(string) bool { return func(v string) bool { return !f(v) } }

// isGUID reports whether v is 32 hexadecimal digits in the groups of a GUID.
func isGUID(v string) bool {
	v = strings.ToLower(strings.Trim(v, "{}"))
	groups := strings.Split(v, "-")
	if len(v) != 36 || len(groups) != 5 {
		return false
	}
	for i, length := range []int{8, 4, 4, 4, 12} {
		if len(groups[i]) != length || strings.Trim(groups[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}
