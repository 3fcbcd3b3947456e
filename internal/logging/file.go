package logging

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"k8s.io/klog/v2"
)

// FileOptions say where a long-running program writes its log. The zero value is standard error.
type FileOptions struct {
	Path string // "" is standard error
	// MaxSize is the size in bytes that a file may have. A file of that size is renamed to Path.1, after Path.1 was
	// renamed to Path.2, and so on. 0 means 10 MiB.
	MaxSize int64
	Keep    int // number of files, the current one included; 0 means 5
}

// Names of the flags, and their help. The file is opened before the flags are parsed (FromArgs), so that errors in
// flags are logged.
const (
	FileFlag, FileHelp = "log-file",
		"file to which the log is written, in place of standard error; a service of Windows has no standard error"
	SizeFlag, SizeHelp = "log-file-max-size",
		"size in MiB at which the log file is renamed to FILE.1 and a new one begun (default 10)"
	CountFlag, CountHelp     = "log-file-max-files", "number of log files to keep, the current one included (default 5)"
	defaultSize, defaultKeep = 10 << 20, 5
)

// FromArgs finds the log file in a command line that is not parsed yet and may have errors: --log-file=F or --log-file
// F, and the same for the other two flags. The last one wins. A size or count that is no number is ignored; the parser
// of the flags reports it.
func FromArgs(args []string) FileOptions {
	var o FileOptions
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, value, found := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		name = strings.ReplaceAll(name, "_", "-") // like upstream's, kube-proxy accepts both
		if !found && i+1 < len(args) {
			value = args[i+1]
		}

		n, err := strconv.ParseInt(value, 10, 32)
		switch {
		case name == FileFlag:
			o.Path = value
		case name == SizeFlag && err == nil:
			o.MaxSize = n << 20
		case name == CountFlag && err == nil:
			o.Keep = int(n)
		}
	}
	return o
}

// Check returns an error that names the flag if a size or a number of files is negative.
func (o FileOptions) Check() error {
	switch {
	case o.MaxSize < 0:
		return fmt.Errorf("--%s must not be negative", SizeFlag)
	case o.Keep < 0:
		return fmt.Errorf("--%s must not be negative", CountFlag)
	}
	return nil
}

// File is a log file with rotation by size. It is safe for concurrent use. If the file cannot be renamed, because
// another program has it open, it grows beyond its limit and no line is lost. The next attempt is after another tenth
// of the limit.
type File struct {
	options FileOptions

	mu    sync.Mutex
	file  *os.File
	size  int64
	limit int64 // size at which the next rotation is tried
}

// OpenFile opens the log file for appending and makes its folder. Close it to end.
func OpenFile(o FileOptions) (*File, error) {
	if o.MaxSize <= 0 {
		o.MaxSize = defaultSize
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	f := &File{options: o}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o755); err != nil {
		return nil, fmt.Errorf("opening the log file %s: %w", o.Path, err)
	}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("opening the log file %s: %w", o.Path, err)
	}
	return f, nil
}

// Write appends lines. klog calls it with one entry at a time.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil && f.size > 0 && f.size+int64(len(p)) > f.limit {
		f.rotate()
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(p)
	f.size += int64(n)
	return n, err
}

// Close closes the file. A later Write opens it again, so that no late line is lost.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shut()
}

// open opens the current file. It makes the Go runtime write the text of a panic to it too, which klog does not see
// and which would be lost in a program without standard error.
func (f *File) open() error {
	file, err := os.OpenFile(f.options.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	st, err := file.Stat()
	if err == nil {
		err = debug.SetCrashOutput(file, debug.CrashOptions{})
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	f.size = st.Size()
	f.limit = f.options.MaxSize
	return nil
}

// shut closes all handles of the file, because Windows does not rename an open file.
func (f *File) shut() error {
	if f.file == nil {
		return nil
	}
	err := errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}), f.file.Close())
	f.file = nil
	return err
}

// rotate renames the files, the oldest first, and opens a new one. If it cannot open one, f.file is nil and Write
// tries again.
func (f *File) rotate() {
	_ = f.shut() // its content is written, and an error could not be logged
	name := func(i int) string { return fmt.Sprintf("%s.%d", f.options.Path, i) }
	var err error
	if f.options.Keep == 1 {
		err = os.Remove(f.options.Path)
	} else {
		for i := f.options.Keep - 2; i >= 1; i-- {
			_ = os.Rename(name(i), name(i+1)) // it may not exist, or be open elsewhere; the newest file matters most
		}
		err = os.Rename(f.options.Path, name(1))
	}

	if openErr := f.open(); openErr == nil && err != nil {
		f.limit = f.size + f.options.MaxSize/10
	}
}

// ToFile makes klog write to the file and not to standard error. Call it once, before anything logs.
func ToFile(f *File) error {
	for _, set := range [][2]string{{"logtostderr", "false"}, {"alsologtostderr", "false"},
		{"stderrthreshold", "FATAL"}, {"one_output", "true"}} {
		if err := klogFlags().Set(set[0], set[1]); err != nil {
			return fmt.Errorf("sending the log to %s: %w", f.options.Path, err)
		}
	}
	klog.SetOutput(f)
	output = f
	return nil
}

// output is where log lines go. ToFile sets it.
var output io.Writer = os.Stderr

// Output returns where log lines go, for logs that are not written through klog.
func Output() io.Writer { return output }
