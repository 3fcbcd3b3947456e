package runtime

import (
	"bytes"
	"strings"
	"time"

	"porthole.dev/porthole/kubelet/logs"
)

// logWindow is how much of the end of a log is looked at, in bytes, in search of its last lines.
const logWindow = 64 << 10

// logTail returns the end of a CRI log file without its time stamps: the last maxLogLines lines, and of these at most
// the last maxLogBytes bytes. What is not a line of a CRI log is left out, and a file that is a link is not read.
func logTail(path string) string {
	f, err := logs.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := end(f, logWindow)
	if err != nil {
		return ""
	}

	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	var text []byte
	for _, line := range lines[max(0, len(lines)-maxLogLines):] {
		said, whole, ok := logLine(line)
		if !ok {
			continue
		}
		text = append(text, said...)
		if whole {
			text = append(text, '\n')
		}
	}
	return string(text[max(0, len(text)-maxLogBytes):])
}

// logLine returns the text of a line "<RFC3339Nano> stdout|stderr F|P[:tag] <text>" of a CRI log. whole is false if
// the text goes on in the next line. ok is false if it is no such line.
func logLine(line []byte) (text []byte, whole, ok bool) {
	parts := bytes.SplitN(line, []byte(" "), 4)
	if len(parts) < 4 {
		return nil, false, false
	}
	if _, err := time.Parse(time.RFC3339Nano, string(parts[0])); err != nil {
		return nil, false, false
	}
	if stream := string(parts[1]); stream != "stdout" && stream != "stderr" {
		return nil, false, false
	}
	tag, _, _ := strings.Cut(string(parts[2]), ":")
	return parts[3], tag == "F", tag == "F" || tag == "P"
}

// samePath reports whether two container paths are equal, regardless of slashes and of a drive letter that was added.
func samePath(a, b string) bool {
	clean := func(p string) string {
		p = strings.ReplaceAll(p, `\`, "/")
		if len(p) > 1 && p[1] == ':' {
			p = p[2:]
		}
		return p
	}
	return clean(a) == clean(b)
}
