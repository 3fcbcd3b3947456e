package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/logs"
)

const (
	tailBlock   = 16 << 10 // bytes that are read at once in search of the last lines
	maxLogLine  = 1 << 20  // bytes; a longer line is passed on in parts
	timeColumns = 64       // bytes; no time stamp is longer
)

// logPoll is the wait between two reads at the end of a followed log, through a handle that stays open. It grows while
// nothing comes. Windows' notifications about folders would be late: they come when the file's size is written to the
// disk, which the cache delays (learn.microsoft.com, ReadDirectoryChangesW, FILE_NOTIFY_CHANGE_SIZE).
var logPoll = retry.Backoff{First: 50 * time.Millisecond, Max: 400 * time.Millisecond}

// rotationPeriod is the time between two checks whether a followed log was rotated; there is one more when its
// container has ended. A check looks at the path. On Windows that opens the file, and virus scanners examine each
// opening, so checks are rare.
const rotationPeriod = time.Second

// logLine is one line of a log in CRI format: "<RFC3339Nano> stdout|stderr F|P <text>".
type logLine struct {
	time    time.Time
	stderr  bool
	partial bool // the text continues in the next line of the same stream
	text    []byte
}

// stampLayout is the layout of time stamps in answers: always nine digits, however many the runtime wrote.
const stampLayout = "2006-01-02T15:04:05.000000000Z07:00"

// parseLog parses one line, which has no line feed.
func parseLog(line []byte) (logLine, error) {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(stamp) > timeColumns {
		return logLine{}, errors.New("log line has no time stamp")
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return logLine{}, fmt.Errorf("log line: %w", err)
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || string(stream) != "stdout" && string(stream) != "stderr" {
		return logLine{}, fmt.Errorf("log line: unknown stream %.20q", stream)
	}
	tags, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return logLine{}, errors.New("log line has no tag")
	}
	// A tag may be followed by others, after a colon.
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	return logLine{time: at, stderr: string(stream) == "stderr", partial: string(tag) == "P", text: text}, nil
}

// logQuery is which part of a log a client wants.
type logQuery struct {
	follow, timestamps, previous bool
	since                        time.Time
	tail                         *int64 // number of lines from the end; nil for all
	limit                        *int64 // bytes; nil for no limit
	stream                       string // "Stdout", "Stderr", or anything else for both
}

// logWriter writes lines of a log as the client wants them.
type logWriter struct {
	out     io.Writer
	query   logQuery
	left    int64 // bytes that may still be written, if there is a limit
	lines   int64 // lines that may still be written, if there is a tail that is not followed; a part counts as a line
	midLine bool  // the last line was partial
}

var errLimit = errors.New("limit reached")

// line writes one line of the log. whole is false for text at the end of a file that has no line feed. It returns
// errLimit if the client gets nothing more.
func (w *logWriter) line(raw []byte, whole bool) error {
	counted := w.query.tail != nil && !w.query.follow
	if counted && w.lines == 0 {
		return errLimit
	}
	l, err := parseLog(raw)
	if err != nil {
		return nil // a damaged line is left out, as upstream's kubelet does
	}

	// Every line counts against the tail, also one that is not shown.
	w.lines--
	// A line that goes on has no stamp of its own.
	stamped := w.query.timestamps && !w.midLine
	// An empty part does not begin a line.
	w.midLine = (l.partial || !whole) && len(l.text) > 0
	if l.time.Before(w.query.since) || w.query.stream == "Stdout" && l.stderr ||
		w.query.stream == "Stderr" && !l.stderr {
		return nil
	}

	var b []byte
	if stamped {
		b = append(l.time.AppendFormat(b, stampLayout), ' ')
	}
	b = append(b, l.text...)
	if !l.partial && whole {
		b = append(b, '\n')
	}

	// The limit may cut a line in the middle.
	if w.query.limit != nil && int64(len(b)) >= w.left {
		_, err := w.out.Write(b[:w.left])
		return errors.Join(errLimit, err)
	}
	w.left -= int64(len(b))
	_, err = w.out.Write(b)
	return err
}

// logFiles are the operations by which a log is followed. Tests replace them to count them.
type logFiles struct {
	open func(path string) (*os.File, error)
	// moved reports whether path no longer names f. It opens path on Windows.
	moved func(f *os.File, path string) bool
	// wait returns after d, or reports false when ctx ends before.
	wait func(ctx context.Context, d time.Duration) bool
}

// hostLogs are the operations of the machine's own files.
var hostLogs = logFiles{open: logs.Open, moved: moved, wait: waitFor}

// moved reports whether path names another file than f. It reports false while path names none. It follows no link at
// the end of the path.
func moved(f *os.File, path string) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && !os.SameFile(here, there)
}

// waitFor is a pause that ends early with ctx.
func waitFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// readLog copies a log to out until ctx ends, which is no error. With follow it goes on, through rotations of the file,
// until running reports that the container has ended and everything was read. running is not called without follow.
func readLog(ctx context.Context, path string, q logQuery, running func() bool, out io.Writer) error {
	return hostLogs.read(ctx, path, q, running, out)
}

// read does the work of readLog. copy replaces f when the log was rotated, so the deferred call closes whichever file
// is then open. Reaching the query's limit of bytes is not an error.
func (h logFiles) read(ctx context.Context, path string, q logQuery, running func() bool, out io.Writer) error {
	f, err := h.open(path)
	if err != nil {
		return fmt.Errorf("opening log: %w", err)
	}
	defer func() { f.Close() }()
	// Only the beginning depends on the tail: what a followed log gets later is shown whole.
	if q.tail != nil {
		if err := seekTail(ctx, f, *q.tail); err != nil && ctx.Err() == nil {
			return fmt.Errorf("finding the last lines of the log: %w", err)
		}
	}

	w := &logWriter{out: out, query: q}
	if q.tail != nil {
		w.lines = *q.tail
	}
	if q.limit != nil {
		w.left = *q.limit
	}

	err = h.copy(ctx, path, &f, w, running)
	if errors.Is(err, errLimit) || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading log: %w", err)
	}
	return nil
}

// copy writes the lines of *f to w until the end that readLog describes. After a rotation *f is the new file. *f stays
// open.
func (h logFiles) copy(ctx context.Context, path string, f **os.File, w *logWriter, running func() bool) error {
	follow := w.query.follow
	lines := &lineReader{from: logs.Until(ctx, *f)}
	// idle counts reads that found nothing, for the back-off.
	idle, unchecked := 0, time.Duration(0) // waits without new lines; time since the last check for a rotation

	for {
		last := !follow || !running() // asked first: whatever the container wrote before it ended is read then
		before := lines.total
		if err := lines.all(w.line); err != nil {
			return err
		}
		// A read that found something begins the back-off again.
		if idle++; lines.total > before {
			idle = 1
		}

		// With the container's end there is one more check, because the file may have been rotated
		// just before.
		if follow && (last || unchecked >= rotationPeriod) {
			unchecked = 0
			if next, ok := h.rotated(*f, path); ok {
				err := errors.Join(lines.all(w.line), lines.rest(w.line)) // the end of the old file
				(*f).Close()
				*f = next
				lines = &lineReader{from: logs.Until(ctx, next)}
				if err != nil {
					return err
				}
				continue
			}
		}

		if last {
			return lines.rest(w.line)
		}
		pause := logPoll.Wait(idle)
		if !h.wait(ctx, pause) {
			return nil
		}
		unchecked += pause
	}
}

// rotated opens path again if it no longer names the file f.
// A new file that cannot be opened yet is tried again at the next check.
func (h logFiles) rotated(f *os.File, path string) (*os.File, bool) {
	if !h.moved(f, path) {
		return nil, false
	}
	next, err := h.open(path)
	return next, err == nil
}

// lineReader splits a growing file into lines. It keeps an unfinished line for later.
type lineReader struct {
	from    io.Reader
	pending []byte
	total   int64 // bytes that were read
}

// all passes on every line up to the present end of the file.
func (r *lineReader) all(each func(line []byte, whole bool) error) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.from.Read(buf)
		r.pending, r.total = append(r.pending, buf[:n]...), r.total+int64(n)

		// Whole lines are passed on; what follows the last line feed stays pending.
		done := 0
		for {
			i := bytes.IndexByte(r.pending[done:], '\n')
			if i < 0 {
				break
			}
			if err := each(r.pending[done:done+i], true); err != nil {
				return err
			}
			done += i + 1
		}
		r.pending = append(r.pending[:0], r.pending[done:]...)
		// A line without an end must not fill the memory.
		if len(r.pending) > maxLogLine {
			if err := r.rest(each); err != nil {
				return err
			}
		}

		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// rest passes on the unfinished line, if there is one.
func (r *lineReader) rest(each func(line []byte, whole bool) error) error {
	if len(r.pending) == 0 {
		return nil
	}
	line := r.pending
	r.pending = nil
	return each(line, false)
}

// seekTail moves the offset of f to its last n lines, unless ctx ends before. An unfinished line at the end does not
// count as one.
func seekTail(ctx context.Context, f *os.File, n int64) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}

	buf := make([]byte, tailBlock)
	// Blocks are read from the end towards the beginning.
	for at, found := end, int64(-1); at > 0; { // the first line feed that is found ends the last line
		if err := ctx.Err(); err != nil {
			return err
		}
		size := min(at, tailBlock)
		at -= size
		if _, err := f.ReadAt(buf[:size], at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := size - 1; i >= 0; i-- {
			if buf[i] != '\n' {
				continue
			}
			if found++; found == n {
				_, err = f.Seek(at+i+1, io.SeekStart)
				return err
			}
		}
	}
	// The file has fewer lines than were asked for.
	_, err = f.Seek(0, io.SeekStart)
	return err
}
