package hcsd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
)

// memory is a file in memory.
type memory struct{ data []byte }

func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	if at < 0 || at > 1<<20 {
		return 0, errors.New("too large")
	}
	if need := int(at) + len(b); need > len(m.data) {
		m.data = append(m.data, make([]byte, need-len(m.data))...)
	}
	return copy(m.data[at:], b), nil
}

// stream is one stream of a backup.
func stream(id uint32, name string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, id)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	return append(append(b, name...), data...)
}

// reparse is a reparse point: tag, and target from after a header of that many bytes.
func reparse(tag uint32, flags []byte, target string) []byte {
	var text []byte
	for _, u := range utf16.Encode([]rune(target)) {
		text = binary.LittleEndian.AppendUint16(text, u)
	}
	b := binary.LittleEndian.AppendUint32(nil, tag)
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	b = append(b, 0, 0, 0, 0)
	return append(append(b, flags...), text...)
}

func TestReadEntry(t *testing.T) {
	attributes := []byte{0x20, 0, 0, 0}
	sparse := append(binary.LittleEndian.AppendUint64(nil, 4), "xy"...)

	for name, c := range map[string]struct {
		data    []byte
		content string
		bad     bool
	}{
		"a file": {
			bytes.Join([][]byte{attributes, stream(3, "", []byte("acl")), stream(1, "", []byte("content"))}, nil),
			"content", false},
		"another stream": {
			bytes.Join([][]byte{attributes, stream(4, ":x:$DATA", []byte("no")), stream(1, "", []byte("a"))}, nil), "a",
			false},
		"sparse blocks": {bytes.Join([][]byte{attributes, stream(9, "", sparse)}, nil), "\x00\x00\x00\x00xy",
			false},
		"empty":            {attributes, "", false},
		"nothing":          {nil, "", false},
		"half of a header": {append(attributes, 1, 0), "", true},
		"cut short": {bytes.Join([][]byte{attributes, stream(1, "", []byte("content"))}, nil)[:26], "co",
			true},
		"a negative size":   {append(attributes, stream(1, "", nil)[:8]...), "", true},
		"an unknown stream": {append(attributes, stream(12, "", nil)...), "", true},
		"zeros":             {make([]byte, 1<<20), "", true},
		"a sparse block, bare": {
			bytes.Join([][]byte{attributes, stream(9, "", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})},
				nil), "", true},
	} {
		var m memory
		e, err := ReadEntry(bytes.NewReader(c.data), &m)
		if (err != nil) != c.bad || string(m.data) != c.content && !c.bad {
			t.Errorf("%s: %q, %+v, %v", name, m.data, e, err)
		}
	}
}

// TestOwner reads the owner of a file from descriptors, which may say that it is anywhere.
func TestOwner(t *testing.T) {
	sid := []byte{1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0}
	descriptor := func(place byte, rest ...byte) []byte {
		return append([]byte{1, 0, 0, 0x80, place, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, rest...)
	}
	for name, c := range map[string]struct{ descriptor, owner []byte }{
		"an owner":             {descriptor(20, sid...), sid},
		"one behind a group":   {descriptor(24, append([]byte{9, 9, 9, 9}, sid...)...), sid},
		"none":                 {descriptor(0, sid...), nil},
		"in the head":          {descriptor(4, sid...), nil},
		"behind the end":       {descriptor(200, sid...), nil},
		"cut short":            {descriptor(20, sid[:9]...), nil},
		"with too many parts":  {descriptor(20, append([]byte{1, 16}, make([]byte, 80)...)...), nil},
		"no descriptor at all": {[]byte("acl"), nil},
	} {
		e, err := ReadEntry(bytes.NewReader(append([]byte{0x20, 0, 0, 0}, stream(3, "", c.descriptor)...)), &memory{})
		if err != nil || !bytes.Equal(e.Owner, c.owner) {
			t.Errorf("%s: owner %v, %v", name, e.Owner, err)
		}
	}
}

// TestLinkTarget: a link stays on C:, whatever it says.
func TestLinkTarget(t *testing.T) {
	relative, absolute := []byte{1, 0, 0, 0}, []byte{0, 0, 0, 0}
	for _, c := range []struct {
		name, target string
		flags        []byte
		tag          uint32
		want         string // "" is refused
	}{
		{"a/b/link", `..\c`, relative, symlinkTag, "../../a/c"},
		{"link", `..\..\..\etc\passwd`, relative, symlinkTag, "etc/passwd"},
		{"a/link", `\??\C:\windows\x`, absolute, symlinkTag, "../windows/x"},
		{"a/link", `\??\C:\..\..\x`, absolute, symlinkTag, "../x"},
		{"a/junction", `\??\C:\data`, nil, mountPointTag, "../data"},
		{"link", `\??\C:\`, absolute, symlinkTag, "."},
		{"a/link", `\??\D:\x`, absolute, symlinkTag, ""},
		{"a/link", `\??\UNC\server\share`, absolute, symlinkTag, ""},
		{"a/link", `x`, relative, 0x80000017, ""},
		{"a/link", "x\x00y", relative, symlinkTag, ""},
	} {
		got, err := LinkTarget(c.name, reparse(c.tag, c.flags, c.target))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s to %s: %q, %v", c.name, c.target, got, err)
		}
	}
}

func FuzzReadEntry(f *testing.F) {
	f.Add(append([]byte{0, 0, 0, 0}, stream(1, "", []byte("content"))...))
	f.Add(append([]byte{0, 0, 0, 0},
		stream(3, "", []byte{1, 0, 0, 0x80, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 5, 18,
			0, 0, 0})...))
	f.Add(append([]byte{0, 0, 0, 0}, stream(8, "", reparse(symlinkTag, []byte{1, 0, 0, 0}, `..\..\x`))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ReadEntry(bytes.NewReader(data), &memory{})
		if err != nil || e.Reparse == nil {
			return
		}
		target, err := LinkTarget("a/b", e.Reparse)
		if err == nil && (strings.HasPrefix(target, "/") || strings.HasPrefix(target, "../..") ||
			strings.Contains(target, "/../")) {
			t.Errorf("%x leads to %s", data, target)
		}
	})
}

func FuzzDocuments(f *testing.F) {
	f.Add(smallest)
	f.Add(`{"CommandLine":"cmd","Environment":{"A":"b"},"ConsoleSize":[1,2]}`)
	f.Add(`{"ResourcePath":"Container/Processor","Settings":{"Count":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		all := Systems{}
		if s, err := all.Create("a", text, start); err == nil {
			_, _ = s.Modify(text) // must not panic
			if _, err := all.Enumerate("{}"); err != nil {
				t.Error(err)
			}
		}
		var p Process
		if Decode(text, &p) == nil && p.Check() == nil {
			ImageName(p.CommandLine, p.ApplicationName)
		}
	})
}
