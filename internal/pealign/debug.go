package pealign

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"strings"
)

// More offsets, from the signature.
const (
	sectionsAt  = 6 // number of sections
	imageSizeAt = optionalAt + 56
	checksumAt  = optionalAt + 64
)

// WithoutDebug returns a program without the sections of debugging information that it ends with, and without symbols.
// It changes data. What is loaded stays as it was; a program that has nothing of the kind is returned as it is.
func WithoutDebug(data []byte) ([]byte, error) {
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
	head := int(le.Uint32(data[peOffsetAt:]))
	table := head + optionalAt + int(f.SizeOfOptionalHeader)
	le.PutUint16(data[head+sectionsAt:], uint16(kept))
	le.PutUint64(data[head+symbolsAt:], 0)
	le.PutUint32(data[head+imageSizeAt:], first.VirtualAddress)
	le.PutUint32(data[head+checksumAt:], 0) // none
	clear(data[table+kept*sectionSize : table+len(f.Sections)*sectionSize])
	return data[:end], nil
}
