package hcsd

import (
	"encoding/binary"
	"errors"
	"io"
)

// The streams of a backup (WIN32_STREAM_ID: learn.microsoft.com/windows/win32/api/winbase/ns-winbase-win32_stream_id).
const (
	backupData     = 1
	backupSecurity = 3
	backupReparse  = 8
	backupSparse   = 9
	lastStream     = 11 // BACKUP_GHOSTED_FILE_EXTENTS of winbase.h
)

const (
	attributesSize = 4       // of the file's attributes, which come before its streams
	streamHeader   = 20      // of one stream, without its name
	maxStreamName  = 1 << 16 // bytes
	maxReparse     = 16 << 10
	maxSecurity    = 64 << 10 // an access list has at most this size
)

// Entry is what the file of a layer's import folder says of a file or folder of the layer.
type Entry struct {
	Attributes uint32
	Reparse    []byte // its reparse point; nil: it has none
	Owner      []byte // the SID of its owner; nil: it has none
}

// ReadEntry reads a file of an import folder as hcsshim writes it (internal/wclayer/legacy.go): the attributes, then
// the streams of a backup. What the file contains goes to content. Access lists, extended attributes and other streams
// are left out.
func ReadEntry(r io.Reader, content io.WriterAt) (Entry, error) {
	var e Entry
	if err := binary.Read(r, binary.LittleEndian, &e.Attributes); err != nil {
		if errors.Is(err, io.EOF) {
			return e, nil // a file without attributes is an empty one
		}
		return e, ErrInvalidData.WithText("the file's attributes: %v", err)
	}

	for {
		var head struct {
			ID, Attributes uint32
			Size           int64
			NameSize       uint32
		}
		err := binary.Read(r, binary.LittleEndian, &head)
		if errors.Is(err, io.EOF) {
			return e, nil
		}
		if err != nil || head.ID == 0 || head.ID > lastStream || head.Size < 0 || head.NameSize > maxStreamName {
			return e, ErrInvalidData.WithText("the header of a stream is broken")
		}
		if _, err := io.CopyN(io.Discard, r, int64(head.NameSize)); err != nil {
			return e, ErrInvalidData.WithText("the name of a stream is cut short")
		}
		if err := e.readStream(io.LimitReader(r, head.Size), head.ID, head.Size, content); err != nil {
			return e, err
		}
	}
}

// readStream reads one stream whole.
func (e *Entry) readStream(r io.Reader, id uint32, size int64, content io.WriterAt) error {
	// Data goes to the file as it comes; what is kept in memory has a limit.
	var err error
	n := int64(0)
	switch {
	case id == backupData:
		n, err = io.Copy(io.NewOffsetWriter(content, 0), r)
	case id == backupSparse && size >= 8:
		// A sparse block begins with its place in the file, which is a part of the size.
		var offset int64
		if err := binary.Read(r, binary.LittleEndian, &offset); err != nil || offset < 0 {
			return ErrInvalidData.WithText("a sparse block has no place")
		}
		n, err = io.Copy(io.NewOffsetWriter(content, offset), r)
		n += 8
	case id == backupSecurity && size <= maxSecurity:
		var descriptor []byte
		descriptor, err = io.ReadAll(r)
		n = int64(len(descriptor))
		e.Owner = ownerOf(descriptor)
	case id == backupReparse && size <= maxReparse:
		e.Reparse, err = io.ReadAll(r)
		n = int64(len(e.Reparse))
	case id == backupReparse:
		return ErrInvalidData.WithText("a reparse point of %d bytes", size)
	default:
		n, err = io.Copy(io.Discard, r)
	}

	if err != nil {
		return err
	}
	// n is less than size if the archive ends within the stream.
	if n != size {
		return ErrInvalidData.WithText("a stream is cut short")
	}
	return nil
}

// Of a security descriptor that is one piece, SECURITY_DESCRIPTOR_RELATIVE, and of a SID (winnt.h).
const (
	ownerPlace     = 4 // where the place of the owner stands
	descriptorHead = 20
	sidHead        = 8  // with the number of parts at 1
	maxSIDParts    = 15 // SID_MAX_SUB_AUTHORITIES
)

// ownerOf returns the SID of the owner in a security descriptor, nil if there is none.
func ownerOf(descriptor []byte) []byte {
	if len(descriptor) < descriptorHead {
		return nil
	}
	place := int64(binary.LittleEndian.Uint32(descriptor[ownerPlace:]))
	if place < descriptorHead || place+sidHead > int64(len(descriptor)) {
		return nil
	}
	sid := descriptor[place:]
	length := sidHead + 4*int(sid[1])
	if sid[0] != 1 || sid[1] > maxSIDParts || length > len(sid) {
		return nil
	}
	return sid[:length:length]
}
