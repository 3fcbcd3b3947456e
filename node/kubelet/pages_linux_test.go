package kubelet

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUnwritten(t *testing.T) {
	const smaps = `00400000-00401000 r-xp 00000000 fe:00 7 /opt/a program
Rss:                   4 kB
Anonymous:             0 kB
00401000-00402000 r--p 00001000 fe:00 7 /opt/a program
Anonymous:             4 kB
00402000-00403000 rw-p 00002000 fe:00 7 /opt/a program
Anonymous:             0 kB
00403000-00404000 r--p 00000000 fe:00 8 /opt/another
Anonymous:             0 kB
00404000-00405000 r--p 00003000 fe:00 7 /opt/a program
VmFlags: rd mr mw me
00405000-00406000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7fff0000-7fff1000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
`
	got, err := unwritten(bufio.NewScanner(strings.NewReader(smaps)), "/opt/a program")
	if want := []mapping{{0x400000, 0x401000}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%x, %v, want %x", got, err, want)
	}
}

// TestReleaseProgram: less of the program's file is mapped afterwards, and the program goes on.
func TestReleaseProgram(t *testing.T) {
	before := mappedFiles(t)
	releaseProgram()
	if after := mappedFiles(t); after > before/2 {
		t.Errorf("%d kB of files are mapped, and %d before", after, before)
	}
}

// mappedFiles returns how many kB of files are mapped in this process.
func mappedFiles(t *testing.T) (kib int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "RssFile: %d", &kib); n == 1 {
			return kib
		}
	}
	t.Fatalf("no RssFile in\n%s", status)
	return 0
}
