package runtime

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// logTail returns the end of a CRI log file without its time stamps: the last maxLogLines lines, and of these at most the last
// maxLogBytes bytes.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const window = 64 << 10
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, size-window), io.SeekStart)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return ""
	}

	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	var text []byte
	for _, line := range lines[max(0, len(lines)-maxLogLines):] {
		parts := bytes.SplitN(line, []byte(" "), 4) // time, stream, tag, text
		if len(parts) < 4 {
			continue
		}
		text = append(text, parts[3]...)
		if string(parts[2]) == "F" {
			text = append(text, '\n')
		}
	}
	return string(text[max(0, len(text)-maxLogBytes):])
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
