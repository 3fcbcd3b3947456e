package platform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// rights are the access rights of files by their names in SDDL (winnt.h, sddl.h).
var rights = map[string]uint32{
	"GA": 0x10000000, "GX": 0x20000000, "GW": 0x40000000, "GR": 0x80000000, "RC": 0x20000, "SD": 0x10000, "WD": 0x40000,
	"WO": 0x80000,
	"FA": 0x1f01ff, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200a0,
	"CC": 0x1, "DC": 0x2, "LC": 0x4, "SW": 0x8, "RP": 0x10, "WP": 0x20, "DT": 0x40, "LO": 0x80, "CR": 0x100,
}

const (
	// changes are the rights by which a folder is changed: what is in it, its attributes, its owner and its list, and
	// the folder itself is deleted or renamed. FILE_WRITE_ATTRIBUTES makes an empty folder a link.
	changes = 0x2 | 0x4 | 0x10 | 0x40 | 0x100 | 0x10000 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000
	// readExecute is FILE_GENERIC_READ | FILE_GENERIC_EXECUTE.
	readExecute = 0x1200a9
)

// trusted are those who may change what a node's programs read: SYSTEM, the administrators, and Windows' installer
// (winnt.h).
var trusted = []string{"SY", "BA", "S-1-5-18", "S-1-5-32-544",
	"S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"}

// held returns an access control list, in SDDL, by which nobody but trusted and self changes a folder itself, and
// whether it differs from the given one. self is the administrator who runs this program, if it is no group that holds
// the rights. What is made in the folder from now on inherits what it would have: it may be meant for containers.
func held(sddl string, self ...string) (list string, differs bool, err error) {
	_, given, found := strings.Cut(sddl, "D:")
	given, _, _ = strings.Cut(given, "S:")
	if !found || strings.HasPrefix(given, "NO_ACCESS_CONTROL") { // everybody may do everything
		return "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;;0x1200a9;;;WD)(A;OICIIO;FA;;;WD)", true, nil
	}

	out := "D:P"
	_, entries, _ := strings.Cut(given, "(")
	for entry := range strings.SplitSeq(strings.TrimSuffix(entries, ")"), ")(") {
		if entry == "" {
			continue
		}
		fields := strings.Split(entry, ";")
		if len(fields) < 6 {
			return "", false, fmt.Errorf("%q is no entry of an access control list", entry)
		}
		flags := strings.ReplaceAll(fields[1], "ID", "")
		mask, err := maskOf(fields[2])
		if err != nil {
			return "", false, err
		}
		if fields[0] != "A" || slices.Contains(trusted, fields[5]) || slices.Contains(self, fields[5]) ||
			mask&changes == 0 || strings.Contains(flags, "IO") {
			out += fmt.Sprintf("(%s;%s;%s;%s)", fields[0], flags, fields[2], strings.Join(fields[3:], ";"))
			continue
		}

		differs = true
		if left := harmless(mask); left != 0 {
			out += fmt.Sprintf("(A;;%#x;;;%s)", left, fields[5])
		}
		if strings.Contains(flags, "CI") || strings.Contains(flags, "OI") {
			out += fmt.Sprintf("(A;%sIO;%s;;;%s)", flags, fields[2], fields[5])
		}
	}
	return out, differs, nil
}

// harmless returns what is left of rights without those that change.
func harmless(mask uint32) uint32 {
	if mask&(rights["GA"]|rights["GR"]|rights["GX"]) != 0 {
		mask = mask&^(rights["GA"]|rights["GR"]|rights["GX"]) | readExecute
	}
	return mask &^ changes
}

// maskOf reads the rights of an entry: a number, or names of two letters.
func maskOf(text string) (mask uint32, err error) {
	if n, err := strconv.ParseUint(text, 0, 32); err == nil {
		return uint32(n), nil
	}
	for i := 0; i+2 <= len(text); i += 2 {
		right, known := rights[text[i:i+2]]
		if !known {
			return 0, fmt.Errorf("%q are no rights to a file", text)
		}
		mask |= right
	}
	return mask, nil
}

// ownedByOther reports whether a security descriptor, in SDDL, has an owner who is not trusted. An owner can change
// the list at any time.
func ownedByOther(sddl string, self ...string) bool {
	_, owner, found := strings.Cut(sddl, "O:")
	if end := strings.IndexAny(owner, ":"); end > 0 {
		owner = owner[:end-1] // the letter in front of the next colon begins the next part
	}
	return found && !slices.Contains(trusted, owner) && !slices.Contains(self, owner)
}
