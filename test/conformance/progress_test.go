package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// However the output is cut into pieces, tests are counted and failures are named once.
func TestProgress(t *testing.T) {
	const output = "Will run 5 of 7579 specs\n•••\n------------------------------\n• [FAILED] [8.702 seconds]\n" +
		"[sig-node] Pods [It] should work\n  • not a test\n------------------------------\n•\n"
	for _, size := range []int{1, 2, 7, len(output)} {
		var log, out bytes.Buffer
		p := &progress{log: &log, out: &out, start: time.Now()}
		for at := 0; at < len(output); at += size {
			if _, err := p.Write([]byte(output[at:min(at+size, len(output))])); err != nil {
				t.Fatal(err)
			}
		}
		if log.String() != output {
			t.Errorf("pieces of %d bytes: the log differs", size)
		}
		if p.total != 5 || p.done != 5 || p.failed != 1 {
			t.Errorf("pieces of %d bytes: %d of %d done, %d failed; want 5 of 5, 1 failed", size, p.done, p.total,
				p.failed)
		}
		if n := strings.Count(out.String(), "FAILED [sig-node] Pods [It] should work"); n != 1 {
			t.Errorf("pieces of %d bytes: the failure is named %d times:\n%s", size, n, &out)
		}
	}
}
