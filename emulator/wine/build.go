package wine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"porthole.dev/porthole/internal/winbuild"
)

// Build is what a Windows version says of itself in the registry.
type Build struct {
	Number  int
	UBR     int // update build revision, the fourth number of os.version
	Product string
	Release string // ReleaseId / DisplayVersion
}

// Version is the four-part version as container images carry it in os.version.
func (b Build) Version() string { return fmt.Sprintf("10.0.%d.%d", b.Number, b.UBR) }

// builds that can be emulated. The revisions are those of one monthly update each; image selection ignores them.
var builds = []Build{
	{Number: 17763, UBR: 8146, Product: "Windows Server 2019 Datacenter", Release: "1809"},
	{Number: 20348, UBR: 4405, Product: "Windows Server 2022 Datacenter", Release: "21H2"},
	{Number: 26100, UBR: 7171, Product: "Windows Server 2025 Datacenter", Release: "24H2"},
}

// Builds lists the build numbers that can be emulated, oldest first.
func Builds() []int {
	var numbers []int
	for _, b := range builds {
		numbers = append(numbers, b.Number)
	}
	return numbers
}

// LookupBuild gives the build of that number, or an error that names the known ones.
func LookupBuild(number int) (Build, error) {
	i := slices.IndexFunc(builds, func(b Build) bool { return b.Number == number })
	if i >= 0 {
		return builds[i], nil
	}
	var known []string
	for _, b := range builds {
		known = append(known, fmt.Sprintf("%d (%s)", b.Number, strings.TrimSuffix(b.Product, " Datacenter")))
	}
	list := strings.Join(known, ", ")
	if err := winbuild.CheckNode(winbuild.Build(number)); err != nil && winbuild.Build(number).Name() != "" {
		return Build{}, fmt.Errorf("%w; a host can have one of the builds %s", err, list)
	}
	return Build{}, fmt.Errorf("unknown Windows build %s; known builds are %s", strconv.Itoa(number), list)
}

// userRegistry is what the template's user hive gets on top of Wine's own. Containers load only what they must of
// ours; cmd.exe needs the library that mends its messages (emulator/dll/sechost.c).
const userRegistry = "\n[Software\\\\Wine\\\\AppDefaults\\\\cmd.exe\\\\DllOverrides]\n\"sechost\"=\"native,builtin\"\n"

// registry is what the template's system hive gets on top of Wine's own, in the hive's text form. Wine merges repeated
// keys. Services that no console program needs do not start: fewer helper processes per host and per container.
// MountMgr (drives) and nsiproxy (network interfaces) stay.
func (b Build) registry() string {
	var s strings.Builder
	key := func(name string, values ...string) {
		fmt.Fprintf(&s, "\n[%s]\n%s\n", strings.ReplaceAll(name, `\`, `\\`), strings.Join(values, "\n"))
	}
	key(`Software\Microsoft\Windows NT\CurrentVersion`,
		fmt.Sprintf(`"CurrentBuild"="%d"`, b.Number),
		fmt.Sprintf(`"CurrentBuildNumber"="%d"`, b.Number),
		`"CurrentMajorVersionNumber"=dword:0000000a`,
		`"CurrentMinorVersionNumber"=dword:00000000`,
		`"CurrentVersion"="10.0"`, // programs read "6.3", as on Windows: emulator/dll/mend_registry.c
		fmt.Sprintf(`"UBR"=dword:%08x`, b.UBR),
		fmt.Sprintf(`"ProductName"="%s"`, b.Product),
		fmt.Sprintf(`"ReleaseId"="%s"`, b.Release),
		fmt.Sprintf(`"DisplayVersion"="%s"`, b.Release),
		`"InstallationType"="Server Core"`,
		`"EditionID"="ServerDatacenter"`,
	)

	key(`System\CurrentControlSet\Control\ProductOptions`, `"ProductType"="ServerNT"`)
	for _, name := range []string{"PlugPlay", "winebus", "winehid", "wineusb", "StiSvc", "wuauserv", "BITS", "Spooler",
		"TermService", "NDIS", "HTTP"} {
		key(`System\CurrentControlSet\Services\`+name, `"Start"=dword:00000004`)
	}
	for _, name := range []string{"RpcSs", "Eventlog", "Schedule", "FontCache", "FontCache3.0.0.0", "LanmanServer"} {
		key(`System\CurrentControlSet\Services\`+name, `"Start"=dword:00000003`)
	}
	return s.String()
}
