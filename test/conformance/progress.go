package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"
)

// showEvery is how long to wait before the next line about tests that passed.
const showEvery = 15 * time.Second

// progress copies what ginkgo prints to log, and tells out how far it is. In its short form ginkgo prints a dot for a
// test that passed, and for one that did not a paragraph that begins with the dot and the result; the line below names
// the test.
type progress struct {
	log, out io.Writer
	start    time.Time

	// line holds what came after the last line break; total is 0 until ginkgo has said it.
	line         []byte // so far, of the line that is being written
	total        int
	done, failed int
	shown        time.Time
	nameComes    bool
}

// The expressions are of ginkgo's short form, without colours.
var (
	specsToRun = regexp.MustCompile(`^Will run (\d+) of`)
	dot        = []byte("•")
)

// Write takes ginkgo's output in any pieces.
func (p *progress) Write(data []byte) (int, error) {
	if _, err := p.log.Write(data); err != nil {
		return 0, err
	}
	for rest := data; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		p.line = append(p.line, part...)
		rest = after
		if ended {
			p.ended(p.line)
			p.line = p.line[:0]
		}
	}
	// A line of dots grows for a long time: all but the last count as they come; what follows the last may be a result.
	if n := bytes.Count(p.line, dot); n > 1 && len(p.line) == n*len(dot) {
		p.done += n - 1
		p.line = p.line[:len(dot)]
		p.show()
	}
	return len(data), nil
}

// ended takes in a whole line of ginkgo's output: the number of tests, dots for tests that have passed or were
// skipped, or the beginning of a failure, whose name is the next line.
func (p *progress) ended(line []byte) {
	if m := specsToRun.FindSubmatch(line); m != nil {
		p.total, _ = strconv.Atoi(string(m[1])) // digits by the expression
		return
	}
	if p.nameComes {
		p.nameComes = false
		fmt.Fprintf(p.out, "%6.0fs  FAILED %s\n", time.Since(p.start).Seconds(), line)
		return
	}
	// S stands for a test that was skipped.
	if len(bytes.Trim(line, "•S")) == 0 {
		p.done += bytes.Count(line, dot)
		return
	}
	if bytes.HasPrefix(line, dot) &&
		(bytes.Contains(line, []byte("[FAILED]")) || bytes.Contains(line, []byte("[TIMEDOUT]")) ||
			bytes.Contains(line, []byte("[PANICKED]"))) {
		p.done++
		p.failed++
		p.nameComes = true
	}
}

// show prints a line at most every showEvery.
func (p *progress) show() {
	if time.Since(p.shown) < showEvery {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.out, "%6.0fs  %d of %d tests, %d failed\n", time.Since(p.start).Seconds(), p.done, p.total, p.failed)
}
