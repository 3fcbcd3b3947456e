// Package firewall is the inbound firewall of an emulated Windows host. It drops incoming packets unless they belong
// to a connection that the host began or a rule allows them. As in Windows Defender Firewall, rules have a program, or
// a protocol and ports. The firewall does not apply to traffic of pods. Rules are texts in the format of Windows'
// registry. All but apply_linux.go is pure.
package firewall

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Rule is one inbound rule. Other fields of Windows' rules are ignored.
type Rule struct {
	Name     string
	Block    bool // it comes before every rule that allows
	Disabled bool
	Program  string   // full path; "": any
	Protocol uint8    // 6 or 17; 0: any
	Ports    []string // "80" or "8000-8080", with a protocol; none: any
}

// version is the schema version with which a rule's text begins: that of Windows 10 1809 ([MS-GPFAS] 2.2.2).
const version = "v2.29"

// Text returns the rule in the registry's format ([MS-GPFAS] 2.2.2, "Firewall Rule and the Firewall Rule Grammar
// Rule").
func (r Rule) Text() string {
	action, active := "Allow", "TRUE"
	if r.Block {
		action = "Block"
	}
	if r.Disabled {
		active = "FALSE"
	}
	fields := []string{version, "Action=" + action, "Active=" + active, "Dir=In"}
	if r.Protocol != 0 {
		fields = append(fields, fmt.Sprintf("Protocol=%d", r.Protocol))
	}
	for _, p := range r.Ports {
		if strings.Contains(p, "-") {
			fields = append(fields, "LPort2_10="+p)
		} else {
			fields = append(fields, "LPort="+p)
		}
	}
	if r.Program != "" {
		fields = append(fields, "App="+r.Program)
	}
	return strings.Join(append(fields, "Name="+r.Name), "|") + "|"
}

// Parse parses a rule's text. in is false for an outbound rule.
func Parse(text string) (r Rule, in bool, err error) {
	fields := strings.Split(strings.TrimSuffix(text, "|"), "|")
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "v") {
		return r, false, fmt.Errorf("%q is no firewall rule", text)
	}

	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		switch strings.ToLower(name) {
		case "action":
			r.Block = strings.EqualFold(value, "Block")
		case "active":
			r.Disabled = !strings.EqualFold(value, "TRUE")
		case "dir":
			in = strings.EqualFold(value, "In")
		case "protocol":
			n, err := strconv.ParseUint(value, 10, 8)
			if err != nil {
				return r, false, fmt.Errorf("protocol %q of a firewall rule", value)
			}
			r.Protocol = uint8(n)
		case "lport", "lport2_10":
			if !isPorts(value) {
				return r, false, fmt.Errorf("ports %q of a firewall rule", value)
			}
			r.Ports = append(r.Ports, value)
		case "app":
			r.Program = value
		case "name":
			r.Name = value
		}
	}
	return r, in, nil
}

func isPorts(text string) bool {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := strconv.ParseUint(last, 10, 16)
	return err1 == nil && err2 == nil && a <= b
}

// programMarks are the bits that every mark of a program has. The data plane uses addresses of pods as marks; no pod
// has an address in 240.0.0.0/4, so that the two are never the same.
const programMarks = 0xf0000000

// Mark returns the mark of a program's sockets: a hash of its path in lower case. Two programs with the same mark
// count as one. The host's ws2_32.dll computes it in the same way, and asks hnsd to set it on sockets that listen or
// are bound.
func Mark(program string) uint32 {
	h := fnv.New32a()
	for _, unit := range utf16.Encode([]rune(program)) {
		if unit >= 'A' && unit <= 'Z' {
			unit += 'a' - 'A'
		}
		_, _ = h.Write([]byte{byte(unit), byte(unit >> 8)}) // a hash never fails
	}
	return programMarks | h.Sum32()>>4
}

// IsMark reports whether a mark can be that of a program.
func IsMark(mark uint32) bool { return mark&programMarks == programMarks }

// Table is the name of the firewall's nft table.
const Table = "porthole-firewall"

// Script returns the nft commands that replace the firewall's rules in one step. ICMP errors belong to connections
// that the host began; echo requests are dropped, as on Windows Server. Port 68 is that of DHCP. Port 4789 is that of
// overlay networks, whose packets the virtual switch of Windows takes before the firewall.
func Script(rules []Rule) string {
	lines := []string{"table inet " + Table, "delete table inet " + Table, "table inet " + Table + " {",
		"chain input {",
		"type filter hook input priority 10; policy drop;", "ct state established,related accept",
		`iifname "lo" accept`,
		"udp dport { 68, 4789 } accept",
		"icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept"}

	for _, block := range []bool{true, false} {
		for _, r := range rules {
			if r.Block == block && !r.Disabled {
				lines = append(lines, r.lines()...)
			}
		}
	}
	return strings.Join(append(lines, "}", "}"), "\n") + "\n"
}

// lines returns the nft lines of the rule. Its program is matched by the mark that the program's sockets carry (Mark).
func (r Rule) lines() []string {
	verdict, match := "accept", ""
	if r.Block {
		verdict = "drop"
	}
	if r.Program != "" {
		match = fmt.Sprintf("socket mark 0x%08x ", Mark(r.Program))
	}
	protocol := map[uint8]string{6: "tcp", 17: "udp"}[r.Protocol]
	switch {
	case r.Protocol == 0:
		return []string{match + verdict}
	case protocol == "":
		return []string{fmt.Sprintf("%smeta l4proto %d %s", match, r.Protocol, verdict)}
	case len(r.Ports) == 0:
		return []string{match + "meta l4proto " + protocol + " " + verdict}
	}
	ports := slices.Clone(r.Ports)
	return []string{match + protocol + " dport { " + strings.Join(ports, ", ") + " } " + verdict}
}
