package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/cli/origin"
)

// logEnd is how much of each log is taken, from its end.
const logEnd = 128 << 10

// localLogs returns the ends of a local cluster's logs: its own and those of its nodes' programs, not those of pods.
func localLogs(from origin.Flags) (entries []entry, err error) {
	if from.Kubeconfig != "" {
		return nil, nil
	}
	var files []string
	for _, pattern := range []string{"logs/*.log", "hosts/*/logs/*.log"} {
		found, err := filepath.Glob(filepath.Join(from.Dir, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := end(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading a log: %w", err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(file, from.Dir), "/")
		entries = append(entries, entry{name: "logs/" + strings.ReplaceAll(name, "/logs/", "/"), what: "the end of a log", data: data})
	}
	return entries, nil
}

func end(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > logEnd {
		if _, err := f.Seek(-logEnd, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, logEnd))
}
