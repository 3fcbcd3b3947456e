package hcsd

import (
	"encoding/binary"
	"path"
	"strings"
	"unicode/utf16"
)

// Tags of the reparse points that a layer may have ([MS-FSCC] 2.1.2.1).
const (
	mountPointTag = 0xa0000003
	symlinkTag    = 0xa000000c
)

// symlinkRelative is the flag of a link whose target is relative to it ([MS-FSCC] 2.1.2.4).
const symlinkRelative = 1

// LinkTarget is where the reparse point of the file name (a path below C:, with slashes) leads, as the text of a
// symbolic link of Linux: always relative, and never above the root of C:.
func LinkTarget(name string, reparse []byte) (string, error) {
	target, relative, err := substituteName(reparse)
	if err != nil {
		return "", err
	}
	// A relative target starts at the link's folder; path.Join keeps it below the root.
	target = strings.ReplaceAll(target, `\`, "/")
	if relative {
		target = path.Join("/", path.Dir(name), target)
	} else {
		target = strings.TrimPrefix(strings.TrimPrefix(target, "/??/"), "//?/")
		drive, rest, ok := strings.Cut(target, ":")
		if !ok || !strings.EqualFold(drive, "c") {
			return "", ErrNotSupported.WithText("the link %s leads to %s, which is not on C:", name, target)
		}
		target = path.Join("/", rest)
	}
	if strings.ContainsRune(target, 0) {
		return "", ErrInvalidData.WithText("the target of the link %s contains NUL", name)
	}

	// The text climbs from the link's folder to the root, and goes down from there.
	up := strings.Count(path.Clean("/"+name), "/") - 1
	out := strings.Repeat("../", up) + strings.TrimPrefix(target, "/")
	if out == "" {
		out = "."
	}
	return strings.TrimSuffix(out, "/"), nil
}

// substituteName reads the data of a link or mount point ([MS-FSCC] 2.1.2.4 and 2.1.2.5).
func substituteName(b []byte) (target string, relative bool, err error) {
	// The header is 8 bytes: the tag, the size of the data and two reserved ones. Four numbers of
	// two bytes follow, the places and sizes of two names; links have flags after them.
	broken := ErrInvalidData.WithText("a reparse point is broken")
	if len(b) < 16 {
		return "", false, broken
	}
	tag := binary.LittleEndian.Uint32(b)
	offset := int(binary.LittleEndian.Uint16(b[8:]))
	size := int(binary.LittleEndian.Uint16(b[10:]))
	names := b[16:]
	switch tag {
	case mountPointTag:
	case symlinkTag:
		if len(b) < 20 {
			return "", false, broken
		}
		relative = binary.LittleEndian.Uint32(b[16:])&symlinkRelative != 0
		names = b[20:]
	default:
		return "", false, ErrNotSupported.WithText("a reparse point with the tag %#x", tag)
	}
	if offset+size > len(names) || size%2 != 0 {
		return "", false, broken
	}

	units := make([]uint16, size/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(names[offset+2*i:])
	}
	return string(utf16.Decode(units)), relative, nil
}
