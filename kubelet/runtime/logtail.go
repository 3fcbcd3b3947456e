package runtime

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// logTail returns the last lines of a CRI log file, without their time stamps.
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
	var out []string
	total := 0
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	for i := len(lines) - 1; i >= 0 && len(out) < maxLogLines; i-- {
		parts := bytes.SplitN(lines[i], []byte(" "), 4) // time, stream, tag, text
		if len(parts) < 4 {
			continue
		}
		text := string(parts[3])
		if string(parts[2]) == "F" {
			text += "\n"
		}
		if total += len(text); total > maxLogBytes {
			break
		}
		out = append(out, text)
	}
	var b strings.Builder
	for i := len(out) - 1; i >= 0; i-- {
		b.WriteString(out[i])
	}
	return b.String()
}

// samePath compares container paths; on Windows the drive letter may have been added and slashes turned.
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
