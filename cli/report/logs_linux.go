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
	"porthole.dev/porthole/emulator/wine"
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
			// a node's programs do not decide whether there is a report
			data = fmt.Appendf(nil, "this log could not be read: %v\n", err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(file, from.Dir), "/")
		entries = append(entries,
			entry{name: "logs/" + strings.ReplaceAll(name, "/logs/", "/"), what: "the end of a log", data: data})
	}
	return entries, nil
}

// openLog opens a log. That of a Windows service is a link to a file on the C: of its host (host.ShowLog), in whose
// place the programs of the host can put a link to any file of this machine, or a pipe.
func openLog(file string) (*os.File, error) {
	to, err := os.Readlink(file)
	if err != nil {
		return os.Open(file)
	}
	p, name, ok := wine.InPrefix(to)
	if !ok {
		return nil, fmt.Errorf("%s is a link to %s, which is not on the C: of a host", file, to)
	}
	return p.Open(name)
}

func end(file string) ([]byte, error) {
	f, err := openLog(file)
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
