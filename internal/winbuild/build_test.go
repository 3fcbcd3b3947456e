package winbuild

import (
	"fmt"
	"strings"
	"testing"
)

// column is one host of Microsoft's page: the images that run in process isolation and those that run with Hyper-V
// isolation.
type column struct {
	host            Build
	process, hyperV []Build
	source          string
}

// columns are the tabs "Windows Server host OS compatibility" of Microsoft's page as of 20H2, and what later documents
// say of later hosts.
var columns = []column{
	{Server20H2, []Build{Server20H2}, []Build{Server20H2, Server2004, Server1909, Server1903, Server2019, Server2016},
		compatibilityPage},
	{Server2004, []Build{Server2004}, []Build{Server2004, Server1909, Server1903, Server2019, Server2016},
		compatibilityPage},
	{Server1909, []Build{Server1909}, []Build{Server1909, Server1903, Server2019, Server2016}, compatibilityPage},
	{Server1903, []Build{Server1903}, []Build{Server1903, Server2019, Server2016}, compatibilityPage},
	{Server2019, []Build{Server2019}, []Build{Server2019, Server2016}, compatibilityPage},
	{Server2016, []Build{Server2016}, []Build{Server2016}, compatibilityPage},
	{Server2022, []Build{Server2022}, []Build{Server2022, Server2019, Server2016},
		"containerd/platforms Test_PlatformCompat; portability page: no 2019 on 2022"},
	{Server23H2, []Build{Server2022, Server23H2}, []Build{Server23H2, Server2022, Server2019, Server2016},
		"portability page; containerd/platforms Test_PlatformCompat"},
	{Server2025, []Build{Server2022, Server23H2, Server2025},
		[]Build{Server2025, Server23H2, Server2022, Server2019, Server2016},
		"containerd/platforms Test_PlatformCompat"},
}

// rows are the images of the page's tables.
var rows = []Build{Server2016, Server2019, Server1903, Server1909, Server2004, Server20H2, Server2022, Server23H2,
	Server2025}

// Rows 1.07, 1.101.
func TestMatchIsThePublishedTable(t *testing.T) {
	for _, c := range columns {
		for _, image := range rows {
			for i, run := range map[Isolation][]Build{Process: c.process, HyperV: c.hyperV} {
				want := contains(run, image)
				if image > Server2016 && image < c.host && i == HyperV {
					want = true // the page leaves releases out of the lists of hosts that came long after them
				}
				got := Match(Version{c.host, -1}, Version{image, -1}, i)
				if got.Runs != want || got.Text == "" || got.Source == "" {
					t.Errorf("image %s on host %s with %s isolation: %+v, want runs %v (%s)", image, c.host, i, got,
						want, c.source)
				}
			}
		}
	}
}

func contains(list []Build, b Build) bool {
	for _, x := range list {
		if x == b {
			return true
		}
	}
	return false
}

func TestMatchRules(t *testing.T) {
	for _, c := range []struct {
		host, image string
		isolation   Isolation
		want        Rule
	}{
		{"10.0.14393.1914", "10.0.14393.1944", Process, ruleRevision}, // the page's own example
		{"10.0.14393.1914", "10.0.14393.1914", Process, ruleSame},
		{"10.0.14393", "10.0.14393.1944", Process, ruleSame}, // a revision that is not known is not different
		{"10.0.17763.1", "10.0.17763.8146", Process, ruleSame},
		{"10.0.14393.1914", "10.0.14393.1944", HyperV, ruleHyperV},
		{"10.0.14393.1914", "10.0.16299.15", Process, ruleNewer},
		{"10.0.20348.1", "10.0.26100.1", HyperV, ruleNewer},
		{"10.0.26100.1", "10.0.20348.1", Process, ruleStable},
		{"10.0.26100.1", "10.0.22621.1", Process, ruleStable},
		// containerd/platforms: a host after the last long-term release
		{"10.0.26200.1", "10.0.20348.1", Process, ruleStable},
		{"10.0.26200.1", "10.0.17763.1", Process, ruleOlder},
		{"10.0.20348.1", "10.0.17763.1", Process, ruleOlder},
		{"10.0.20348.1", "10.0.16299.15", HostProcess, ruleHostProcess},
		{"10.0.20348.1", "10.0.20348.1", UnknownIsolation, Rule{}},
	} {
		host, ok1 := ParseVersion(c.host)
		image, ok2 := ParseVersion(c.image)

		if got := Match(host, image, c.isolation); !ok1 || !ok2 || got != c.want {
			t.Errorf("image %s on host %s, %s isolation: %+v, want %+v", c.image, c.host, c.isolation, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	windows := func(versions ...string) Image {
		i := Image{Index: true}
		for _, v := range versions {
			i.Platforms = append(i.Platforms, Platform{OS: "windows", Architecture: "amd64", Version: v})
		}
		return i
	}
	linux := Image{Index: true,
		Platforms: []Platform{{OS: "linux", Architecture: "amd64", Version: ""},
			{OS: "linux", Architecture: "arm64", Version: ""}}}
	single := windows("10.0.17763.1")
	single.Index = false
	unnamed := windows("10.0.17763.1")
	unnamed.Unnamed = true
	arm := Image{Index: true, Platforms: []Platform{{OS: "windows", Architecture: "arm64", Version: "10.0.20348.1"}}}

	for _, c := range []struct {
		name      string
		image     Image
		host      Build
		isolation Isolation
		want      Outcome
		variant   string // of the answer
	}{
		{"the same build", windows("10.0.17763.1", "10.0.20348.1"), Server2022, Process, Runs, "10.0.20348.1"},
		{"the newest that fits", windows("10.0.20348.1", "10.0.26100.1", "10.0.17763.1"), Server2025, Process, Runs,
			"10.0.26100.1"},
		{"2022 on 2025", windows("10.0.20348.1", "10.0.17763.1"), Server2025, Process, Runs, "10.0.20348.1"},
		{"2025 on 2022", windows("10.0.26100.1"), Server2022, Process, NotRun, "10.0.26100.1"},
		{"older comes nearer than newer", windows("10.0.26100.1", "10.0.16299.1", "10.0.17763.1"), Server2022, Process,
			NotRun, "10.0.17763.1"},
		{"of newer ones the oldest is nearest", windows("10.0.26100.1", "10.0.25398.1"), Server2022, Process, NotRun,
			"10.0.25398.1"},
		{"an older one with Hyper-V", windows("10.0.17763.1"), Server2022, HyperV, Runs, "10.0.17763.1"},
		{"no version: taken on trust", windows(""), Server2022, Process, Unknown, ""},
		{"one without a version among others", windows("10.0.17763.1", ""), Server2022, Process, Unknown, ""},
		{"a version of another shape", windows("6.3.9600"), Server2022, Process, Unknown, ""},
		{"a variant without a platform", unnamed, Server2022, Process, Unknown, ""},
		{"nothing known", Image{Index: true}, Server2022, Process, Unknown, ""},
		{"no index, another build", single, Server2022, Process, NotRun, "10.0.17763.1"},
		{"no index, HostProcess", single, Server2022, HostProcess, Runs, "10.0.17763.1"},
		{"an index, HostProcess: the runtime does not pull it", windows("10.0.17763.1"), Server2022, HostProcess,
			NotRun, "10.0.17763.1"},
		{"a handler that nobody knows", windows("10.0.17763.1"), Server2022, UnknownIsolation, Unknown, ""},
		{"a host that nobody knows", windows("10.0.17763.1"), 0, Process, Unknown, ""},
		{"for Linux only", linux, Server2022, Process, NotRun, ""},
		{"for another processor", arm, Server2022, Process, NotRun, "10.0.20348.1"},
	} {
		got := Check(c.image, Host{Version: Version{c.host, -1}, Architecture: "amd64"}, c.isolation)
		if got.Outcome != c.want || got.Platform.Version != c.variant ||
			(c.want == NotRun) != (got.Rule.Text != "" && !got.Rule.Runs) {
			t.Errorf("%s: %+v, want %s by %s", c.name, got, c.want, c.variant)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Version{
		"10.0.20348.3695": {20348, 3695}, "10.0.20348": {20348, -1}, "10.0.20348.0": {20348, 0},
		"": {}, "10.0": {}, "10.0.x": {}, "10.0.70000": {}, "10.0.0": {}, "10.1.20348": {}, "6.3.9600": {},
		"10.0.20348.1.2": {}, "10.0.-1": {}, "10.0.1.-1": {},
	} {
		got, ok := ParseVersion(text)
		if got != want || ok != (want != Version{}) {
			t.Errorf("version %q: %+v, %v", text, got, ok)
		}
	}
	for text, want := range map[string]Build{"20348": Server2022, "10.0.20348.1": Server2022, "ltsc2019": Server2019,
		" LTSC2025 ": Server2025, "": 0, "2022": 2022, "20348.1": 0, "x": 0} {
		got, err := ParseBuild(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("build %q: %v, %v", text, got, err)
		}
	}
}

func TestWords(t *testing.T) {
	if got := List([]Build{Server2025, Server2019, Server2019,
		12345}); got != "12345, 17763 (Windows Server 2019), 26100 (Windows Server 2025)" {
		t.Errorf("list %q", got)
	}
	if got := fmt.Sprint(Fitting(Server2025, Process), Fitting(Server2019, Process),
		Fitting(26200,
			Process)); got != "[20348 (Windows Server 2022) 25398 (Windows Server, version 23H2) 26100 (Windows Server 2025)] "+
		"[17763 (Windows Server 2019)] [20348 (Windows Server 2022) 25398 (Windows Server, version 23H2) 26100 (Windows Server 2025) 26200]" {
		t.Errorf("fitting %s", got)
	}
	i := Image{Index: true, Platforms: []Platform{{OS: "windows", Architecture: "amd64", Version: "10.0.20348.1"},
		{OS: "linux", Architecture: "amd64", Version: ""},
		{OS: "windows", Architecture: "amd64", Version: "10.0.17763.1"}}}
	if got := i.Contents(); got != "Windows builds 17763 (Windows Server 2019), 20348 (Windows Server 2022)" {
		t.Errorf("contents %q", got)
	}
	for handler, want := range map[string]Isolation{"": Process, "runhcs-wcow-process": Process,
		"runhcs-wcow-hypervisor": HyperV, "runhcs-wcow-hypervisor-17763": HyperV, "runsc": UnknownIsolation} {
		if got := IsolationOf(handler); got != want {
			t.Errorf("handler %q: %s", handler, got)
		}
	}
}

// TestTooOld: each build before 2019 is refused with what it lacks, and with the first build that has it.
// Row 1.05.
func TestTooOld(t *testing.T) {
	for b, want := range map[Build][]string{
		Server2016: {"14393 (Windows Server 2016)", "the oldest is 17763 (Windows Server 2019)",
			"network compartment (first in 16299", "symbolic links (first in 17134",
			"HCN", "overlay", "direct server return", "HostProcess containers (first in 17763"},
		Server1709: {"symbolic links (first in 17134", "HCN"},
		Server1803: {"HCN", "HostProcess"},
	} {
		err := CheckNode(b)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("build %s: %v lacks %q", b, err, w)
			}
		}
	}
	if err := CheckNode(Server1709); err == nil || strings.Contains(err.Error(), "compartment") {
		t.Errorf("1709 has what it is said to lack: %v", err)
	}
	for _, b := range []Build{0, Server2019, Server2025, 30000} {
		if err := CheckNode(b); err != nil {
			t.Errorf("build %s: %v", b, err)
		}
	}
}
