package wine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

const wineLibraries = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/"

// TestWithoutTimeZone: of Wine's kernelbase.dll one call is gone, and the mark of its own libraries; of anything else
// nothing.
func TestWithoutTimeZone(t *testing.T) {
	library, err := os.ReadFile(wineLibraries + "kernelbase.dll")
	if err != nil {
		t.Skip(err)
	}
	changed, err := withoutTimeZone(library)
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) != len(library) {
		t.Fatalf("%d bytes, the library has %d", len(changed), len(library))
	}
	differ := 0
	for i := range library {
		if library[i] != changed[i] {
			differ++
		}
	}
	if marked := len(strings.ReplaceAll(builtinMark, "\x00", "")); differ < marked || differ > marked+callBytes {
		t.Errorf("%d bytes differ, not the mark's %d and the call's %d", differ, marked, callBytes)
	}

	other, err := os.ReadFile(wineLibraries + "kernel32.dll")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"changed already": changed, "another library": other, "no library": []byte("MZ"), "cut short": library[:0x3000],
		"another compiler": bytes.ReplaceAll(library, compared, []byte{0x83, 0xf8, 0xfe}),
	} {
		if _, err := withoutTimeZone(data); !errors.Is(err, errUnknownLibrary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testTimeZone: what the registry says of the time zone stays when programs start, and programs hear of that of the
// machine.
func testTimeZone(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	const key = `HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation`
	reg := func(args ...string) string {
		t.Helper()
		out, err := tools.Command(ctx, p, "reg", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("reg %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := reg("query", key); !strings.Contains(out, "StandardName") || !strings.Contains(out, "TimeZoneKeyName") {
		t.Errorf("the registry has no time zone:\n%s", out)
	}
	reg("add", key, "/v", "TimeZoneKeyName", "/d", "Ours", "/f")
	if out := reg("query", key, "/v", "TimeZoneKeyName"); !strings.Contains(out, "Ours") {
		t.Errorf("a program that started has written the time zone:\n%s", out)
	}
}

// FuzzWithoutTimeZone: no file makes it fail otherwise than with an error.
func FuzzWithoutTimeZone(f *testing.F) {
	library, err := os.ReadFile(wineLibraries + "hostname.exe")
	if err != nil {
		f.Skip(err)
	}
	f.Add(library)
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = withoutTimeZone(data) })
}
