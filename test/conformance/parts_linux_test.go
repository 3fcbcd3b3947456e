package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Tests that never end run last, on their own and for a short time, if they were asked for.
func TestInParts(t *testing.T) {
	name := endless[sigWindows]
	const exactly = `\[sig-windows\] \[Feature:GPUDevicePlugin\] Device Plugin should be able to create a functioning device plugin for Windows`
	type part struct {
		Focus, Skip string
		Limit       time.Duration
	}
	last := part{exactly, "", endlessLimit}

	for asked, want := range map[part][]part{
		{"", "", time.Hour}:         {{"", exactly, time.Hour}, last},
		{"GPU|DNS", "", time.Hour}:  {{"GPU|DNS", exactly, time.Hour}, last},
		{"DNS", "", time.Hour}:      {{"DNS", exactly, time.Hour}},
		{"", "Device", time.Hour}:   {{"", "(Device)|" + exactly, time.Hour}},
		{"", "Eviction", time.Hour}: {{"", "(Eviction)|" + exactly, time.Hour}, {exactly, "Eviction", endlessLimit}},
	} {
		parts, err := inParts(options{suite: sigWindows, focus: asked.Focus, skip: asked.Skip, limit: asked.Limit})
		if err != nil {
			t.Fatal(err)
		}
		var got []part
		for _, o := range parts {
			got = append(got, part{o.focus, o.skip, o.limit})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", asked, diff)
		}
	}

	if parts, err := inParts(options{suite: "conformance", focus: name}); err != nil || len(parts) != 1 {
		t.Errorf("another suite: %v, %v", parts, err)
	}
	if _, err := inParts(options{suite: sigWindows, focus: "("}); err == nil {
		t.Error("half an expression is taken")
	}
}
