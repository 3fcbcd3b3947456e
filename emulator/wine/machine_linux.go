package wine

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// hardwareConfig is the key under which Windows keeps the identifier of the machine, in braces and lower case
// (upstream's kubelet, pkg/kubelet/winstats, getSystemUUID, takes both away).
const hardwareConfig = `System\\HardwareConfig`

const systemHive = "system.reg" // in a prefix

// SetMachine writes facts about the machine to the registry of a host: its name, an identifier that is derived from
// the name, and the number of its first boot. It changes nothing that the host has already. No program of the prefix
// may run.
func (p Prefix) SetMachine(name string) error {
	text, err := p.ReadFile(systemHive)
	if err == nil {
		err = p.AppendFile(systemHive, missingFacts(string(text), name))
	}
	if err != nil {
		return fmt.Errorf("writing the machine's name and identifier into the registry: %w", err)
	}
	return nil
}

// InstallDriver registers a kernel driver with the host's services, as the installation of its package does. It
// changes nothing if it is there already. No program of the prefix may run.
func (p Prefix) InstallDriver(name string) error {
	text, err := p.ReadFile(systemHive)
	if err == nil && bytes.Contains(text, []byte(`\\Services\\`+name+"]")) {
		return nil
	}
	if err == nil {
		err = p.AppendFile(systemHive, driverRegistry(name))
	}
	if err != nil {
		return fmt.Errorf("registering driver %s: %w", name, err)
	}
	return nil
}

// driverRegistry is the entry of a driver that the system starts.
func driverRegistry(name string) string {
	return fmt.Sprintf(
		"\n[System\\\\CurrentControlSet\\\\Services\\\\%s]\n\"Type\"=dword:00000001\n\"Start\"=dword:00000001\n", name)
}

var bootNumber = regexp.MustCompile(`"BootId"=dword:([0-9a-f]{8})`)

// NextBoot counts the number by which Windows tells its boots apart, and returns it. No program of the prefix may run.
func (p Prefix) NextBoot() (uint32, error) {
	text, err := p.ReadFile(systemHive)
	if err != nil {
		return 0, fmt.Errorf("reading the number of the last boot: %w", err)
	}
	var last uint64
	for _, found := range bootNumber.FindAllSubmatch(text, -1) { // the last one holds
		if last, err = strconv.ParseUint(string(found[1]), 16, 32); err != nil {
			return 0, fmt.Errorf("reading the number of the last boot: %w", err)
		}
	}
	next := uint32(last) + 1
	if err := p.AppendFile(systemHive, bootRegistry(next)); err != nil {
		return 0, fmt.Errorf("writing the number of the next boot: %w", err)
	}
	return next, nil
}

func bootRegistry(number uint32) string {
	return fmt.Sprintf(
		"\n[System\\\\CurrentControlSet\\\\Control\\\\Session Manager\\\\Memory Management\\\\PrefetchParameters]\n\"BootId\"=dword:%08x\n", number)
}

// hostName is the value that the host has its name from at each boot: emulator/dll/ownname.c.
const hostName = "NV Hostname"

// missingFacts is what a system hive lacks of the facts about the machine of that name.
func missingFacts(hive, name string) (text string) {
	if !strings.Contains(hive, `"`+hostName+`"=`) {
		text += fmt.Sprintf("\n[System\\\\CurrentControlSet\\\\Services\\\\Tcpip\\\\Parameters]\n\"%s\"=\"%s\"\n",
			hostName, name)
	}
	if !strings.Contains(hive, "["+hardwareConfig+"]") {
		id := sha256.Sum256([]byte("porthole machine " + name))
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, variant 1 (RFC 9562), as hypervisors make them
		text += fmt.Sprintf("\n[%s]\n\"LastConfig\"=\"{%x-%x-%x-%x-%x}\"\n", hardwareConfig, id[:4], id[4:6], id[6:8],
			id[8:10], id[10:16]) +
			bootRegistry(1)
	}
	return text
}
