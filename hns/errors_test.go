package hns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestClassOfCode(t *testing.T) {
	for code, want := range map[uint32]Class{
		0x490: Absent, 0x80070490: Absent, 0x803b0001: Absent,
		0xb7: Exists, 0x800700b7: Exists, 0x80071392: Exists, 0x803b0010: Exists,
		0x80004001: Unsupported, 0x803b0015: Unsupported,
		0x57: Invalid, 0x80070057: Invalid, 0x803b002f: Invalid,
		0x803b002c: Unknown, 0x80070005: Unknown, 0x80004005: Unknown, 0: Unknown,
	} {
		if got := ClassOfCode(code); got != want {
			t.Errorf("code %x is %s, want %s", code, got, want)
		}
	}
}

func TestReduceCode(t *testing.T) {
	for code, want := range map[uint32]uint32{0x80070490: 0x490, 0x800700b7: 0xb7, 0x803b0013: 0x803b0013,
		0x80004001: 0x80004001} {
		if got := ReduceCode(code); got != want {
			t.Errorf("%x: %x, want %x", code, got, want)
		}
	}
}

// Each code is in the table once, and as hcsshim gives it.
func TestKnownCodes(t *testing.T) {
	known := KnownCodes()
	slices.Sort(known)
	if once := slices.Compact(slices.Clone(known)); len(once) != len(known) {
		t.Errorf("codes %x are in the table twice", known)
	}
	for _, code := range known {
		if ReduceCode(code) != code {
			t.Errorf("code %x is not reduced", code)
		}
	}
}

func TestClassOf(t *testing.T) {
	absent := fmt.Errorf("deleting: %w", &Error{Doing: "find network x", Class: Absent, Err: errors.New("none")})
	if !IsAbsent(absent) || IsAbsent(nil) || IsAbsent(context.DeadlineExceeded) {
		t.Error("IsAbsent is wrong")
	}
	if ClassOf(nil) != "" || ClassOf(context.DeadlineExceeded) != Unknown {
		t.Error("ClassOf is wrong")
	}
}
