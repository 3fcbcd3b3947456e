package objects

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"porthole.dev/porthole/emulator/hnsd"
)

// journal keeps the state: one line of JSON per change, appended before the caller gets its answer. It survives a kill
// at any moment, not a loss of power: nothing is synced.
type journal struct {
	// file is open for appending from openJournal on; lines are those in it since it was compacted.
	path  string
	file  *os.File
	lines int
}

// openJournal reads the state, which is nil if none was kept, and compacts the file to one line.
func openJournal(path string) (*journal, *hnsd.State, error) {
	state, err := readJournal(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading HNS state %s: %w", path, err)
	}
	j := &journal{path: path}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, err
	}
	if err := j.compact(state); err != nil {
		return nil, nil, err
	}
	return j, state, nil
}

// readJournal returns the state after the last complete change, nil if there is no journal. Any other line that cannot
// be replayed is an error: to go on without it would lose objects.
func readJournal(path string) (*hnsd.State, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var state *hnsd.State
	r := bufio.NewReader(f)

	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return state, nil // a last line without its end was being written when the daemon was killed
		}
		if err != nil {
			return nil, err
		}
		var c hnsd.Change
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, err
		}
		if state, err = state.Replay(c); err != nil {
			return nil, err
		}
	}
}

// compact rewrites the file with the whole state.
// The new file takes the place of the old one in one step, and later changes are appended to it.
func (j *journal) compact(state *hnsd.State) error {
	f, err := os.OpenFile(j.path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing HNS state: %w", err)
	}
	if state != nil {
		err = writeLine(f, state.Diff(nil))
	}
	if err == nil {
		err = os.Rename(j.path+".new", j.path)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("writing HNS state: %w", err)
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.lines = f, 1
	return nil
}

// append writes a change; state is what it leads to.
func (j *journal) append(c hnsd.Change, state *hnsd.State) error {
	if err := writeLine(j.file, c); err != nil {
		return fmt.Errorf("writing HNS state: %w", err)
	}
	// 20,000 lines are the limit of what a start has to replay.
	if j.lines++; j.lines > 20000 {
		return j.compact(state)
	}
	return nil
}

// writeLine writes a line at once, so that a kill leaves at most one incomplete line, at the end.
func writeLine(f *os.File, c hnsd.Change) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return err
}
