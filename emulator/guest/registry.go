package guest

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// Names are what a container's programs hear of its name and of its DNS.
type Names struct {
	Hostname string // "": that of the Wine template
	Searches []string
	Servers  []string
}

// Registry is what the names add to the container's system hive, in the hive's text form (Wine merges repeated keys).
func (n Names) Registry() (system string) {
	if n.Hostname != "" {
		short := ComputerName(n.Hostname)
		system = RegistryKey(`System\CurrentControlSet\Services\Tcpip\Parameters`, "Hostname", n.Hostname) +
			RegistryKey(`System\CurrentControlSet\Control\ComputerName\ComputerName`, "ComputerName", short) +
			RegistryKey(`System\CurrentControlSet\Control\ComputerName\ActiveComputerName`, "ComputerName", short)
	}
	return system + isContainer + RegistryKey(adapterKey, "SearchList", strings.Join(n.Searches, ",")) +
		RegistryKey(adapterKey, "NameServer", strings.Join(n.Servers, ","))
}

// isContainer is the value by which programs see that they run in a container; 2 is process isolation. Our
// bcryptprimitives.dll knows ContainerUser in a container only.
const isContainer = "\n[System\\\\CurrentControlSet\\\\Control]\n\"ContainerType\"=dword:00000002\n"

// adapterKey is where an adapter's settings are. Programs look through all adapters there; Wine has no GUID of its own
// for the one that a pod has.
const adapterKey = `System\CurrentControlSet\Services\Tcpip\Parameters\Interfaces\{8e1d5c2a-6f5b-4a0e-9a57-706f7274686f}`

// ComputerName is the NetBIOS name of a host name: the first label in capitals, at most 15 characters.
func ComputerName(hostname string) string {
	short, _, _ := strings.Cut(strings.ToUpper(hostname), ".")
	return short[:min(len(short), 15)]
}

// RegistryKey is one key with one string value in the text form of a hive, where what is not ASCII is escaped.
func RegistryKey(key, name, value string) string {
	var escaped strings.Builder
	for _, unit := range utf16.Encode([]rune(value)) {
		switch {
		case unit == '\\' || unit == '"':
			escaped.WriteString(`\` + string(rune(unit)))
		case unit < ' ' || unit > '~':
			fmt.Fprintf(&escaped, `\x%04x`, unit)
		default:
			escaped.WriteRune(rune(unit))
		}
	}
	return fmt.Sprintf("\n[%s]\n\"%s\"=\"%s\"\n", strings.ReplaceAll(key, `\`, `\\`), name, escaped.String())
}
