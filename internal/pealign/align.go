// Package pealign copies a Windows program so that its sections lie at whole pages of the file, or without debugging
// information. Nothing that a loader puts into memory changes.
//
// Go's linker puts sections at multiples of 512 bytes. Windows maps such a file nevertheless. Wine can map only
// sections at whole pages and reads the others into the memory of the process: tens of megabytes, and most of the time
// of each start.
package pealign

import (
	"bytes"
	"cmp"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
)

// page is the size of a page on amd64. The PE format allows as alignment of sections in the file any power of two from
// 512 to 64 Ki that is not larger than their alignment in memory.
const page = 4096

// ErrRefused is for a file that is no 64-bit program, or has offsets that File does not know how to move.
var ErrRefused = errors.New("cannot be laid out at whole pages")

// File replaces the file to by an aligned copy of from. Running programs keep using the old file, which they have
// mapped. Nothing is written if it returns an error that wraps ErrRefused.
func File(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if data, err = align(data); err != nil {
		return fmt.Errorf("%s %w: %w", from, ErrRefused, err)
	}
	part := to + ".part"
	if err := os.WriteFile(part, data, 0o755); err != nil {
		return err
	}
	return os.Rename(part, to)
}

// Offsets in the PE32+ headers, as Microsoft's specification of the format has them.
const (
	peOffsetAt      = 0x3c // in the DOS header: where the signature "PE\0\0" is
	symbolsAt       = 12   // from the signature: file offset of the COFF symbols
	optionalAt      = 24   // from the signature
	fileAlignmentAt = optionalAt + 36
	headersSizeAt   = optionalAt + 60
	sectionSize     = 40
	rawSizeAt       = 16 // from a section's header; the file offset follows
	rawOffsetAt     = 20
)

// align returns the same program with sections at whole pages. It refuses a file with offsets that it does not know
// how to move.
func align(from []byte) ([]byte, error) {
	f, err := pe.NewFile(bytes.NewReader(from))
	if err != nil {
		return nil, err
	}
	header, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return nil, errors.New("it is no 64-bit program")
	}
	if header.FileAlignment >= page {
		return from, nil
	}
	if err := checkMovable(header); err != nil {
		return nil, err
	}

	le := binary.LittleEndian
	signature := int(le.Uint32(from[peOffsetAt:]))
	table := signature + optionalAt + int(f.SizeOfOptionalHeader)
	end := table + len(f.Sections)*sectionSize
	size := wholePages(end)
	if len(f.Sections) > 0 && uint32(size) > f.Sections[0].VirtualAddress {
		return nil, errors.New("its headers need more than the page in front of the first section")
	}

	to := make([]byte, size, len(from)+(len(f.Sections)+1)*page)
	copy(to, from[:end])
	le.PutUint32(to[signature+fileAlignmentAt:], page)
	le.PutUint32(to[signature+headersSizeAt:], uint32(size))
	le.PutUint32(to[signature+symbolsAt:], 0)
	to = appendSections(to, from, f, signature)

	if f.PointerToSymbolTable != 0 && le.Uint32(to[signature+symbolsAt:]) == 0 {
		return nil, errors.New("its symbols are in no section")
	}
	return to, nil
}

// checkMovable returns an error if sections cannot lie at whole pages, or if something that is not moved would hold
// wrong values afterwards.
func checkMovable(header *pe.OptionalHeader64) error {
	switch {
	case header.SectionAlignment < page:
		return fmt.Errorf("sections are %d bytes apart in memory, less than a page", header.SectionAlignment)
	case header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_SECURITY].Size > 0,
		header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_DEBUG].Size > 0:
		return errors.New("it has a signature or debug information, which hold file offsets")
	case header.CheckSum != 0:
		return errors.New("it has a checksum, which would be wrong afterwards")
	}
	return nil
}

// appendSections appends the sections of from in the order of the file, each filled up to whole pages, and returns the
// longer file. It sets their new offsets and sizes, and that of the symbols, in the headers that to begins with.
func appendSections(to, from []byte, f *pe.File, signature int) []byte {
	le := binary.LittleEndian
	table := signature + optionalAt + int(f.SizeOfOptionalHeader)
	order := make([]int, len(f.Sections))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(f.Sections[a].Offset, f.Sections[b].Offset) })

	for _, i := range order {
		s := f.Sections[i]
		if s.Offset == 0 || s.Size == 0 {
			continue // only zeros in memory, nothing in the file
		}
		at := table + i*sectionSize
		le.PutUint32(to[at+rawOffsetAt:], uint32(len(to)))
		// The symbols lie in a section of their own.
		if f.PointerToSymbolTable >= s.Offset && f.PointerToSymbolTable < s.Offset+s.Size {
			le.PutUint32(to[signature+symbolsAt:], uint32(len(to))+f.PointerToSymbolTable-s.Offset)
		}
		to = append(to, from[s.Offset:s.Offset+s.Size]...)
		to = append(to, make([]byte, wholePages(len(to))-len(to))...)
		le.PutUint32(to[at+rawSizeAt:], uint32(wholePages(int(s.Size))))
	}
	return to
}

// wholePages returns the least number of bytes that is a multiple of a page and holds size.
func wholePages(size int) int { return (size + page - 1) / page * page }
