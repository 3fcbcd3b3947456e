package scm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const eventFile = "events.jsonl"

// eventLog writes the Windows event log. It is safe for concurrent use.
type eventLog struct {
	mu  sync.Mutex
	dir string
}

// event writes an entry of the manager itself.
func (l *eventLog) event(id uint32, level, text string, args ...any) {
	l.add(Event{Log: "System", Source: "Service Control Manager", ID: id, Level: level, Text: fmt.Sprintf(text, args...)})
}

// add writes an entry. An entry that cannot be written is lost, as on Windows when the log is full.
func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Time = time.Now()
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(l.dir, eventFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(line, '\n'))
}

// ReadEvents reads the event log of the host whose manager keeps its files in dir, oldest entry first.
func ReadEvents(dir string) ([]Event, error) {
	events := []Event{}
	f, err := os.Open(filepath.Join(dir, eventFile))
	if errors.Is(err, os.ErrNotExist) {
		return events, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may be half written
			events = append(events, e)
		}
	}
	return events, lines.Err()
}
