// Command tar is the tar.exe of emulated Windows hosts, which Windows has since build 17063 and Wine has not: what
// `kubectl cp` and scripts use of it. It reads archives of ustar, pax and GNU, and extracts nothing outside of the
// folder that it is told.
//
//	tar -c|-x|-t [-v] [-z] [-m] [-k] [-h] [-f FILE] [-C FOLDER] [--exclude PATTERN] [--strip-components N] [PATH…]
package main

//lint:file-ignore ST1005 the words are those of Windows' tar

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
)

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = o.run(os.Stdin, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "tar: %v\n", err)
		os.Exit(1)
	}
}

// options are what the arguments ask for.
type options struct {
	mode                                  byte // c, x or t
	verbose, gzip, now, keep, dereference bool
	file                                  string // "-": standard input or output
	strip                                 int
	exclude                               []string
	folder                                string // of extraction and listing
	paths                                 []source
}

// source is a path to archive or extract, and the folder from which it is named.
type source struct{ folder, path string }

const usage = `Usage:
  List:    tar -tf <archive-filename>
  Extract: tar -xf <archive-filename>
  Create:  tar -cf <archive-filename> [filenames...]`

// parse reads the arguments. The first one may be a bundle of letters without a hyphen, as of old.
func parse(args []string) (o options, err error) {
	o.file, o.folder = "-", "."
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		if args, err = o.letters(args[0], args[1:], true); err != nil {
			return o, err
		}
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case strings.HasPrefix(arg, "--"):
			args, err = o.long(arg[2:], args)
		case len(arg) > 1 && arg[0] == '-':
			args, err = o.letters(arg[1:], args, false)
		default:
			o.paths = append(o.paths, source{o.folder, arg})
		}
		if err != nil {
			return o, err
		}
	}

	if o.mode == 0 {
		return o, errors.New("Must specify one of -c, -t, -x\n" + usage)
	}
	if o.mode == 'c' && len(o.paths) == 0 {
		return o, errors.New("no files or directories specified")
	}
	return o, nil
}

// letters reads a bundle of options of one letter. A value is the rest of the bundle, or the next argument if there is
// no rest. In a bundle without a hyphen it is always the next argument.
func (o *options) letters(bundle string, args []string, old bool) ([]string, error) {
	for i := 0; i < len(bundle); i++ {
		switch c := bundle[i]; c {
		case 'c', 'x', 't':
			if o.mode != 0 && o.mode != c {
				return nil, fmt.Errorf("Can't specify both -%c and -%c", o.mode, c)
			}
			o.mode = c
		case 'v':
			o.verbose = true
		case 'z':
			o.gzip = true
		case 'm':
			o.now = true
		case 'k':
			o.keep = true
		case 'h', 'L':
			o.dereference = true

		case 'p', 'o', 'P': // permissions and owners of Linux are not kept; whole paths are refused all the same
		case 'f', 'C', 'b':
			value := bundle[i+1:]
			if value == "" || old {
				if len(args) == 0 {
					return nil, fmt.Errorf("Option -%c requires an argument\n%s", c, usage)
				}
				value, args = args[0], args[1:]
			} else {
				i = len(bundle)
			}
			o.value(c, value)
		default:
			return nil, fmt.Errorf("Option -%c is not supported\n%s", c, usage)
		}
	}
	return args, nil
}

func (o *options) value(c byte, value string) {
	switch c {
	case 'f':
		o.file = value
	case 'C':
		o.folder = value
	}
}

// long reads an option of several letters.
func (o *options) long(name string, args []string) ([]string, error) {
	name, value, given := strings.Cut(name, "=")
	switch name {
	case "exclude", "strip-components", "file", "directory":
		if !given {
			if len(args) == 0 {
				return nil, fmt.Errorf("Option --%s requires an argument\n%s", name, usage)
			}
			value, args = args[0], args[1:]
		}
	}

	switch name {
	case "create", "extract", "list", "verbose", "gzip", "dereference":
		letter := map[string]string{"create": "c", "extract": "x", "list": "t", "verbose": "v", "gzip": "z",
			"dereference": "h"}[name]
		return o.letters(letter, args, false)
	case "exclude":
		o.exclude = append(o.exclude, value)
	case "strip-components":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("Argument to --strip-components must be a number, not %q", value)
		}
		o.strip = n
	case "file":
		o.file = value
	case "directory":
		o.folder = value
	case "no-same-owner", "no-same-permissions", "same-permissions", "numeric-owner":
	default:
		return nil, fmt.Errorf("Option --%s is not supported\n%s", name, usage)
	}
	return args, nil
}

// run does what was asked for. What concerns one file is said to errs, and the others go on.
func (o options) run(in io.Reader, out, errs io.Writer) (err error) {
	failed := false
	say := func(err error) {
		failed = true
		fmt.Fprintf(errs, "tar: %v\n", err)
	}
	if o.mode == 'c' {
		err = o.create(out, errs, say)
	} else {
		err = o.read(in, out, errs, say)
	}
	if err == nil && failed {
		err = errors.New("Error exit delayed from previous errors.")
	}
	return err
}

// excluded reports whether a name, or a folder above it, matches a pattern of --exclude.
func (o options) excluded(name string) bool {
	for ; name != "." && name != "/" && name != ""; name = path.Dir(name) {
		for _, pattern := range o.exclude {
			whole, err1 := path.Match(pattern, name)
			last, err2 := path.Match(pattern, path.Base(name))
			if err1 == nil && whole || err2 == nil && last {
				return true
			}
		}
	}
	return false
}
