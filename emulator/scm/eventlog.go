package scm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	eventFile = "events.jsonl"
	// olderFile has the entries before those of eventFile.
	olderFile = "events.old.jsonl"

	// maxText is the most characters of a string of an entry on Windows: 31,839 (ReportEventW, winbase.h).
	maxText = 31839
	// maxFile is the size at which the oldest entries go: the default of a log of Windows is 20,480 KiB.
	maxFile = 20 << 20
	// maxLine is more than an entry takes, each of whose characters can take six bytes.
	maxLine = 1 << 20
)

// eventLog writes the Windows event log. It is safe for concurrent use.
type eventLog struct {
	mu  sync.Mutex
	dir string
}

// event writes an entry of the manager itself.
func (l *eventLog) event(id uint32, level, text string, args ...any) {
	l.add(Event{Log: "System", Source: "Service Control Manager", ID: id, Level: level,
		Text: fmt.Sprintf(text, args...)})
}

// add writes an entry. An entry that cannot be written is lost, as on Windows when the log is full.
func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Time = time.Now()
	e.Source, e.Text = cut(e.Source), cut(e.Text)
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	file := filepath.Join(l.dir, eventFile)
	if st, err := os.Stat(file); err == nil && st.Size() > maxFile {
		_ = os.Rename(file, filepath.Join(l.dir, olderFile)) // else it grows
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(line, '\n'))
}

// cut shortens a text to maxText bytes, at no part of a letter.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}

// ReadEvents reads the event log of the host whose manager keeps its files in dir, oldest entry first.
func ReadEvents(dir string) ([]Event, error) {
	events := []Event{}
	for _, name := range []string{olderFile, eventFile} {
		more, err := readEvents(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("reading the event log: %w", err)
		}
		events = append(events, more...)
	}
	return events, nil
}

// readEvents reads a log, the oldest entry first.
func readEvents(file string) (events []Event, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may be half written
			events = append(events, e)
		}
	}
	return events, lines.Err()
}
