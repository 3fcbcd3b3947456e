package hns

import (
	"errors"
	"fmt"
)

// Class is the question that a failed call answers.
type Class string

// Classes of failure. Only Absent means that a thing is not there; Unknown means that nobody could say.
const (
	Absent      Class = "absent"      // the object does not exist
	Exists      Class = "exists"      // an object with this id, name or frontend exists already
	Unsupported Class = "unsupported" // this HNS cannot do it, ever
	Invalid     Class = "invalid"     // the document is wrong: repeating it will not help
	Unknown     Class = "unknown"     // HNS is away, slow or broken: nothing follows from it
)

// Error is a failed HNS call.
type Error struct {
	Doing string // "creating endpoint x on network y"
	Class Class
	Code  uint32 // HRESULT or Win32 code, 0 when there is none
	Err   error
}

func (e *Error) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("%s: %v (%s, 0x%x)", e.Doing, e.Err, e.Class, e.Code)
	}
	return fmt.Sprintf("%s: %v (%s)", e.Doing, e.Err, e.Class)
}

func (e *Error) Unwrap() error { return e.Err }

// ClassOf says what a call's error means. An error that did not come from HNS, a deadline for example, is Unknown;
// nil has no class.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Unknown
}

// IsAbsent says that the object is known not to exist.
func IsAbsent(err error) bool { return ClassOf(err) == Absent }

// ClassOfCode sorts HRESULTs (facility 7 reduced to the Win32 code, as hcsshim does). Codes: winerror.h, and the
// situations in which HNS was seen to return them.
func ClassOfCode(code uint32) Class {
	switch code {
	case 0x490, 0x80070490, 0x803b0001, 0x803b0002:
		return Absent
	case 0xb7, 0x800700b7, 0x1392, 0x80071392, 0x803b0010, 0x803b0012, 0x803b0013, 0x803b0014:
		return Exists
	case 0x80004001, 0x803b000e, 0x803b0015:
		return Unsupported
	case 0x57, 0x80070057, 0x803b000b, 0x803b000c, 0x803b000d, 0x803b001b, 0x803b001e, 0x803b002f, 0x803b0030,
		0x803b0032, 0x803b0033, 0x803b002b:
		return Invalid
	}
	return Unknown
}

// KnownCodes are the codes that ClassOfCode sorts, for adapters that can only ask "is it this code?".
var KnownCodes = []uint32{
	0x490, 0x803b0001, 0x803b0002,
	0xb7, 0x1392, 0x803b0010, 0x803b0012, 0x803b0013, 0x803b0014,
	0x80004001, 0x803b000e, 0x803b0015,
	0x57, 0x803b000b, 0x803b000c, 0x803b000d, 0x803b001b, 0x803b001e, 0x803b002f, 0x803b0030, 0x803b0032, 0x803b0033,
	0x803b002b,
	0x803b0007, 0x803b0017, 0x803b0020, 0x803b002c, 0x424, 0x426, 0x6ba, 0x6be, 0x6d9, 0x22, 0x34, 0x5,
}
