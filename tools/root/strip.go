package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// windowsFolder has Wine's programs and libraries for Windows.
const windowsFolder = "usr/lib/x86_64-linux-gnu/wine/x86_64-windows"

// stripWindows takes the information for debuggers out of Wine's programs and libraries for Windows, which is four fifths of
// them: Debian ships them so. Wine's debugger then writes addresses in the place of names.
func stripWindows(root *os.Root) error {
	files, err := fs.ReadDir(root.FS(), windowsFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a root folder of a test
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		name := path.Join(windowsFolder, f.Name())
		if !f.Type().IsRegular() {
			continue
		}
		if err := stripFile(root, name); err != nil {
			return fmt.Errorf("taking the debugging information out of %s: %w", name, err)
		}
	}
	return nil
}

// stripFile keeps the time of the file.
func stripFile(root *os.Root, name string) error {
	st, err := root.Stat(name)
	if err != nil {
		return err
	}
	data, err := root.ReadFile(name)
	if err != nil || !bytes.HasPrefix(data, []byte("MZ")) {
		return err
	}
	short, err := withoutDebug(data)
	if err != nil || len(short) == len(data) {
		return err
	}
	if err := root.WriteFile(name, short, st.Mode()); err != nil {
		return err
	}
	return root.Chtimes(name, st.ModTime(), st.ModTime())
}

// Offsets in the headers of a program, from the signature "PE\0\0", as Microsoft's specification of the format has them.
const (
	signaturePointer = 0x3c // in the DOS header
	sectionsAt       = 6    // number of sections
	symbolsAt        = 12   // file offset and number of the COFF symbols
	optionalAt       = 24
	imageSizeAt      = optionalAt + 56
	checksumAt       = optionalAt + 64
	sectionSize      = 40
)

// withoutDebug returns the program without the sections of debugging information that it ends with, and without symbols. It
// changes data.
func withoutDebug(data []byte) ([]byte, error) {
	f, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	kept := len(f.Sections)
	for kept > 0 && strings.HasPrefix(f.Sections[kept-1].Name, ".debug_") {
		kept--
	}
	if kept == len(f.Sections) || kept == 0 {
		return data, nil
	}
	var end uint32
	for _, s := range f.Sections[:kept] {
		if s.Size > 0 {
			end = max(end, s.Offset+s.Size)
		}
	}
	first := f.Sections[kept]
	if first.Offset < end || int64(end) > int64(len(data)) {
		return nil, fmt.Errorf("section %s lies among those that are kept", first.Name)
	}

	le := binary.LittleEndian
	head := int(le.Uint32(data[signaturePointer:]))
	table := head + optionalAt + int(f.SizeOfOptionalHeader)
	le.PutUint16(data[head+sectionsAt:], uint16(kept))
	le.PutUint64(data[head+symbolsAt:], 0)
	le.PutUint32(data[head+imageSizeAt:], first.VirtualAddress)
	le.PutUint32(data[head+checksumAt:], 0) // none
	clear(data[table+kept*sectionSize : table+len(f.Sections)*sectionSize])
	return data[:end], nil
}
