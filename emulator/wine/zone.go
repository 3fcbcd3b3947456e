package wine

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Each program that Wine 8.0 starts looks for the machine's time zone among those of the registry, to write its name
// into the registry, where it is already: init_locale of dlls/kernelbase/locale.c, which GetDynamicTimeZoneInformation
// serves by the find_reg_tz_info of dlls/ntdll/unix/system.c. A program of three lines makes 880 calls to wineserver
// before its first line runs. 460 of them are this search. On two processors it takes a third of the time to start,
// because each call wakes wineserver on the other processor.
//
// The template of a Windows build therefore has a copy of kernelbase.dll without that call. Programs that ask for the
// time zone still get it.

const zoneVersion = "zone 1" // changes with what is done here, so that templates are made again

// zoneFunction is what init_locale calls. It returns unknownZone if it fails, and then nothing is written.
const zoneFunction = "GetDynamicTimeZoneInformation"

// The code of the call on x64, of 5 bytes, with the comparison of its result that follows, and what takes its place.
const (
	callBytes = 5
	callCode  = 0xe8 // call, with the distance to what it calls in 4 bytes
)

var (
	compared    = []byte{0x83, 0xf8, 0xff}             // cmp $-1, %eax
	unknownZone = []byte{0xb8, 0xff, 0xff, 0xff, 0xff} // mov $-1, %eax
)

// builtinMark tells Wine that a file is one of its own libraries, which it then loads from its own folder. It stands
// behind the DOS header.
const builtinMark = "Wine builtin DLL"

// errUnknownLibrary is for a kernelbase.dll of another Wine. Programs start as well with that one, later.
var errUnknownLibrary = errors.New("not the kernelbase.dll of Wine 8.0")

// skipTimeZone takes the search for the time zone out of the prefix's kernelbase.dll. That of another Wine is left as
// it is.
func skipTimeZone(p Prefix) error {
	path := filepath.Join(p.DriveC(), "windows", "system32", "kernelbase.dll")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	changed, err := withoutTimeZone(data)
	if errors.Is(err, errUnknownLibrary) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("changing %s: %w", path, err)
	}
	return os.WriteFile(path, changed, 0o755)
}

// withoutTimeZone returns the library without the call, as one that Wine does not take for its own.
func withoutTimeZone(library []byte) ([]byte, error) {
	f, err := pe.NewFile(bytes.NewReader(library))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnknownLibrary, err)
	}
	lib := image{f, library}
	target, ok := lib.export(zoneFunction)
	text := f.Section(".text")
	mark := bytes.Index(library[:min(len(library), 0x100)], []byte(builtinMark))
	if !ok || text == nil || mark < 0 {
		return nil, errUnknownLibrary
	}

	code, found := lib.at(text.VirtualAddress), -1
	for i := 0; i+callBytes+len(compared) <= len(code); i++ {
		if code[i] != callCode || !bytes.Equal(code[i+callBytes:i+callBytes+len(compared)], compared) {
			continue
		}
		if text.VirtualAddress+uint32(i)+callBytes+binary.LittleEndian.Uint32(code[i+1:]) != target {
			continue
		}
		if found >= 0 {
			return nil, fmt.Errorf("%w: it calls %s twice", errUnknownLibrary, zoneFunction)
		}
		found = i
	}
	if found < 0 {
		return nil, errUnknownLibrary
	}
	out := bytes.Clone(library)
	copy(out[int(text.Offset)+found:], unknownZone)
	clear(out[mark : mark+len(builtinMark)])
	return out, nil
}

// image is a library as it lies in a file.
type image struct {
	*pe.File
	data []byte
}

// at is what lies at an address, counted from the start of the library, to the end of its section; nil: nothing does.
func (m image) at(address uint32) []byte {
	for _, s := range m.Sections {
		if address < s.VirtualAddress || address-s.VirtualAddress >= s.Size {
			continue
		}
		begin := uint64(s.Offset) + uint64(address-s.VirtualAddress)
		end := uint64(s.Offset) + uint64(s.Size)
		if end > uint64(len(m.data)) {
			return nil
		}
		return m.data[begin:end]
	}
	return nil
}

// number is the number at place i of a table of numbers of 32 bits. ok is false if the table is shorter.
func number(table []byte, i uint32) (n uint32, ok bool) {
	if uint64(i)*4+4 > uint64(len(table)) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(table[4*i:]), true
}

// Places of the export directory (IMAGE_EXPORT_DIRECTORY, winnt.h), as a table of numbers.
const (
	exportCount     = 6 // of names
	exportFunctions = 7 // address of the table of functions
	exportNames     = 8 // of that of the names
	exportNumbers   = 9 // of that of each name's place among the functions, of 16 bits each
)

// export returns where a function that the DLL exports by this name begins, as an address relative to the DLL's base.
func (m image) export(name string) (address uint32, ok bool) {
	header, is64 := m.OptionalHeader.(*pe.OptionalHeader64)
	if !is64 {
		return 0, false
	}
	dir := m.at(header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT].VirtualAddress)
	table := func(place uint32) []byte {
		address, _ := number(dir, place) // nothing lies at 0
		return m.at(address)
	}
	functions := table(exportFunctions)
	names := table(exportNames)
	numbers := table(exportNumbers)
	count, _ := number(dir, exportCount)

	for i := range count {
		at, ok := number(names, i)
		if !ok || uint64(i)*2+2 > uint64(len(numbers)) {
			return 0, false
		}
		if text, _, ended := bytes.Cut(m.at(at), []byte{0}); ended && string(text) == name {
			return number(functions, uint32(binary.LittleEndian.Uint16(numbers[2*i:])))
		}
	}
	return 0, false
}
