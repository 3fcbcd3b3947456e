package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// commands that tests use in images for Windows and that neither the shell nor the core utilities have. Only the
// options that tests use are there.
var commands = map[string]func(ctx context.Context, c interp.HandlerContext, args []string) error{
	"env": env, "sleep": sleep, "hostname": hostname, "grep": grep, "head": head, "tail": tail, "wget": wget,
	"curl":     curl,
	"nslookup": nslookup, "date": date, "seq": seq, "wc": wc, "sync": nothing, "chown": nothing, "id": id,
	"uname":      uname,
	"powershell": powershell, "nc": nc, "mv": move, "expr": expr, "dig": dig, "hexdump": hexdump, "awk": awk,
	"ls": ls,
}

// own is the middleware of the interpreter that finds them.
// A command is taken by its name alone, or as one of \bin, where upstream's image has its programs.
// Others are looked for by the interpreter.
func own(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		name := strings.TrimSuffix(strings.ToLower(filepath.Base(args[0])), ".exe")
		do, ok := commands[name]
		if !ok || strings.ContainsAny(args[0], `/\`) &&
			filepath.Dir(strings.ToLower(filepath.Clean(args[0]))) != `\bin` {
			return next(ctx, args)
		}
		c := interp.HandlerCtx(ctx)
		err := do(ctx, c, args[1:])
		if errors.Is(err, errOthers) {
			return next(ctx, args)
		}
		if err != nil {
			if _, status := err.(interp.ExitStatus); !status {
				fmt.Fprintf(c.Stderr, "%s: %v\n", name, err)
				err = interp.ExitStatus(1)
			}
			return err
		}
		return nil
	}
}

// errOthers says that these options are those of the core utilities' command.
var errOthers = errors.New("not a command of ours")

// nothing is a command that succeeds.
func nothing(context.Context, interp.HandlerContext, []string) error { return nil }

// env prints the variables that programs of the shell get.
func env(_ context.Context, c interp.HandlerContext, _ []string) error {
	c.Env.Each(func(name string, v expand.Variable) bool {
		if v.Exported {
			fmt.Fprintf(c.Stdout, "%s=%s\n", name, v.String())
		}
		return true
	})
	return nil
}

// sleep takes durations as GNU's does: plain numbers are seconds, fractions are allowed, and several are added up.
func sleep(ctx context.Context, _ interp.HandlerContext, args []string) error {
	var total time.Duration
	for _, a := range args {
		if _, err := strconv.ParseFloat(a, 64); err == nil {
			a += "s"
		}
		d, err := time.ParseDuration(a)
		if err != nil {
			return err
		}
		total += d
	}
	// 143 is 128 and SIGTERM, as a shell says it of a program that was ended.
	select {
	case <-time.After(total):
	case <-ctx.Done():
		return interp.ExitStatus(143)
	}
	return nil
}

// ls with the option -d names what it is given, by whole paths with slashes as busybox-w32's does: containerd's
// TestWindowsDevice wants that (integration/windows_device_test.go, 2.3.6). The core utilities print the last part of
// a path. Everything else is theirs.
func ls(_ context.Context, c interp.HandlerContext, args []string) error {
	if len(args) == 0 || args[0] != "-d" {
		return errOthers
	}
	missing := false
	for _, pattern := range args[1:] {
		path, before := pattern, "" // what of the names found is not printed
		switch {
		case filepath.IsAbs(path):
		case strings.HasPrefix(path, "/"):
			before = filepath.VolumeName(c.Dir)
			path = before + path
		default:
			before = strings.TrimSuffix(c.Dir, `\`) + `\`
			path = before + path
		}

		found, err := filepath.Glob(path)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			missing = true
			fmt.Fprintf(c.Stderr, "ls: %s: No such file or directory\n", pattern)
		}
		for _, name := range found {
			fmt.Fprintln(c.Stdout, filepath.ToSlash(strings.TrimPrefix(name, before)))
		}
	}

	if missing {
		return interp.ExitStatus(1)
	}
	return nil
}

// keepPatterns leaves the patterns of `ls -d` to the command: the shell takes a pattern that begins with a slash for
// one below the current folder, because such a path is not absolute on Windows.
func keepPatterns(script syntax.Node) {
	syntax.Walk(script, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) < 3 || call.Args[0].Lit() != "ls" || call.Args[1].Lit() != "-d" {
			return true
		}
		for _, w := range call.Args[2:] {
			if text := w.Lit(); strings.ContainsAny(text, "*?[") && !strings.Contains(text, `\`) {
				w.Parts = []syntax.WordPart{&syntax.SglQuoted{Value: text}}
			}
		}
		return true
	})
}

// hostname, id and uname print one line and have no options here.
func hostname(_ context.Context, c interp.HandlerContext, _ []string) error {
	name, err := os.Hostname()
	fmt.Fprintln(c.Stdout, name)
	return err
}

func id(_ context.Context, c interp.HandlerContext, _ []string) error {
	fmt.Fprintln(c.Stdout, os.Getenv("USERNAME"))
	return nil
}

// The word is that of upstream's busybox for Windows.
func uname(_ context.Context, c interp.HandlerContext, _ []string) error {
	fmt.Fprintln(c.Stdout, "Windows_NT")
	return nil
}

// date knows the option +%s, seconds since 1970; without it the time is in UTC.
func date(_ context.Context, c interp.HandlerContext, args []string) error {
	now := time.Now()
	switch {
	case slices.Contains(args, "+%s"):
		fmt.Fprintln(c.Stdout, now.Unix())
	default:
		fmt.Fprintln(c.Stdout, now.UTC().Format(time.UnixDate))
	}
	return nil
}

// seq counts up from 1 or from its first number.
func seq(_ context.Context, c interp.HandlerContext, args []string) error {
	from, to := 1, 0
	var err error
	switch len(args) {
	case 1:
		to, err = strconv.Atoi(args[0])
	case 2:
		if from, err = strconv.Atoi(args[0]); err == nil {
			to, err = strconv.Atoi(args[1])
		}
	default:
		err = fmt.Errorf("one or two numbers are needed")
	}
	for ; err == nil && from <= to; from++ {
		fmt.Fprintln(c.Stdout, from)
	}
	return err
}

// expr calculates with two whole numbers. It prints the result, and fails if that is 0, as expr does.
func expr(_ context.Context, c interp.HandlerContext, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("a number, an operator and a number are needed")
	}
	a, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	b, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}

	if b == 0 && (args[1] == "/" || args[1] == "%") {
		return fmt.Errorf("division by zero")
	}
	switch args[1] {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "/":
		a /= b
	case "%":
		a %= b
	default:
		return fmt.Errorf("operator %s is not known here", args[1])
	}

	fmt.Fprintln(c.Stdout, a)
	if a == 0 {
		return interp.ExitStatus(1)
	}
	return nil
}

// inputs are the files that are named, or standard input.
// done closes them, and must be called when nobody reads any more.
func inputs(c interp.HandlerContext, names []string) (io.Reader, func(), error) {
	if len(names) == 0 {
		return c.Stdin, func() {}, nil
	}
	var all []io.Reader
	var files []*os.File
	done := func() {
		for _, f := range files {
			f.Close()
		}
	}
	// The files are opened before any is read, so that a missing one is an error at once.
	for _, name := range names {
		f, err := os.Open(pathOf(c, name))
		if err != nil {
			done()
			return nil, nil, err
		}
		files, all = append(files, f), append(all, f)
	}
	return io.MultiReader(all...), done, nil
}

// pathOf is the path of a file that is named as on Linux.
func pathOf(c interp.HandlerContext, name string) string {
	switch {
	case name == "/dev/null":
		return os.DevNull
	case filepath.IsAbs(name), strings.HasPrefix(name, "/"), strings.HasPrefix(name, `\`):
		return name
	}
	return filepath.Join(c.Dir, name)
}

// lines reads all lines, without their ends in either form. A line may have 16 MiB.
func lines(c interp.HandlerContext, names []string) ([]string, error) {
	r, done, err := inputs(c, names)
	if err != nil {
		return nil, err
	}
	defer done()
	var out []string
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		out = append(out, strings.TrimSuffix(s.Text(), "\r"))
	}
	return out, s.Err()
}

// split parts options from operands.
// What follows "--" is no option.
func split(args []string) (options, operands []string) {
	for i, a := range args {
		if a == "--" {
			return options, append(operands, args[i+1:]...)
		}
		if strings.HasPrefix(a, "-") && a != "-" {
			options = append(options, a)
		} else {
			operands = append(operands, a)
		}
	}
	return options, operands
}

// grep knows the options F, i, v, q and c. As everywhere, the exit code is 1 if no line matches.
func grep(_ context.Context, c interp.HandlerContext, args []string) error {
	options, operands := split(args)
	flags := strings.Join(options, "")
	if len(operands) == 0 {
		return fmt.Errorf("a pattern is needed")
	}
	// Patterns are regular expressions of Go.
	pattern := operands[0]
	if strings.Contains(flags, "F") {
		pattern = regexp.QuoteMeta(pattern)
	}

	if strings.Contains(flags, "i") {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	all, err := lines(c, operands[1:])
	if err != nil {
		return err
	}

	count := 0
	for _, line := range all {
		// With v the lines count that do not match.
		if re.MatchString(line) == strings.Contains(flags, "v") {
			continue
		}
		count++
		if !strings.ContainsAny(flags, "qc") {
			fmt.Fprintln(c.Stdout, line)
		}
	}

	if strings.Contains(flags, "c") {
		fmt.Fprintln(c.Stdout, count)
	}
	if count == 0 {
		return interp.ExitStatus(1)
	}

	return nil
}

// move is mv of one or more files; its options change nothing here.
func move(_ context.Context, c interp.HandlerContext, args []string) error {
	_, names := split(args)
	if len(names) < 2 {
		return fmt.Errorf("what to move and where to are needed")
	}
	last := len(names) - 1
	to := pathOf(c, names[last])
	info, err := os.Stat(to)
	into := err == nil && info.IsDir()
	if !into && last > 1 {
		return fmt.Errorf("%s is not a folder", names[last])
	}
	for _, name := range names[:last] {
		target := to
		if into {
			target = filepath.Join(to, filepath.Base(name))
		}
		if err := rename(pathOf(c, name), target); err != nil {
			return err
		}
	}
	return nil
}

// renameLimit is how long a file that another program has open is tried again: a web server that serves it on a busy
// machine closes it soon. The programs that upstream's images have for this (busybox-w32, mingw_rename) try again too.
const renameLimit = 10 * time.Second

// rename replaces the target. Errors other than the file being open elsewhere come back at once.
func rename(from, to string) error {
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := os.Rename(from, to)
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) || time.Since(begin) > renameLimit {
			return err
		}
	}
}

// number of lines that head and tail are asked for, as -n 3, -n3 or -3.
func number(args []string) (int, []string) {
	// Ten lines is the default of both.
	n, rest := 10, []string(nil)
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-n" && i+1 < len(args):
			n, _ = strconv.Atoi(strings.TrimPrefix(args[i+1], "-"))
			i++
		case strings.HasPrefix(a, "-"):
			if v, err := strconv.Atoi(strings.TrimLeft(a, "-n")); err == nil {
				n = v
			}
		default:
			rest = append(rest, a)
		}
	}
	return n, rest
}

// head and tail print what could be read, also when reading ends with an error.
func head(_ context.Context, c interp.HandlerContext, args []string) error {
	n, names := number(args)
	all, err := lines(c, names)
	for _, line := range all[:min(n, len(all))] {
		fmt.Fprintln(c.Stdout, line)
	}
	return err
}

func tail(ctx context.Context, c interp.HandlerContext, args []string) error {
	n, names := number(args)
	if len(names) == 1 && (slices.Contains(args, "-f") || slices.Contains(args, "-F")) {
		return follow(ctx, c, names[0], n)
	}
	all, err := lines(c, names)
	for _, line := range all[max(0, len(all)-n):] {
		fmt.Fprintln(c.Stdout, line)
	}
	return err
}

// followEvery is how often a file is looked at for more.
const followEvery = 200 * time.Millisecond

// follow prints the last n lines of a file and then what is appended to it, until it is told to stop.
func follow(ctx context.Context, c interp.HandlerContext, name string, n int) error {
	f, err := os.Open(pathOf(c, name))
	if err != nil {
		return err
	}
	defer f.Close()
	have, err := io.ReadAll(f)
	if err != nil {
		return err
	}

	// A file that ends with a line break has no further, empty line.
	last := strings.SplitAfter(string(have), "\n")
	if last[len(last)-1] == "" {
		last = last[:len(last)-1]
	}
	for _, line := range last[max(0, len(last)-n):] {
		fmt.Fprint(c.Stdout, line)
	}

	for {
		select {
		case <-ctx.Done():
			return interp.ExitStatus(143)
		case <-time.After(followEvery):
		}
		// The file is read on from where reading ended.
		if _, err := io.Copy(c.Stdout, f); err != nil {
			return err
		}
	}
}

// wc counts lines, whatever its options.
func wc(_ context.Context, c interp.HandlerContext, args []string) error {
	_, names := split(args)
	all, err := lines(c, names)
	fmt.Fprintln(c.Stdout, len(all))
	return err
}

// printField is the one program that awk knows.
var printField = regexp.MustCompile(`^\s*\{\s*print\s+\$([0-9]+)\s*\}\s*$`)

// awk knows one program: {print $N}, with N a number, which prints that word of each line; word 0 is the line.
func awk(_ context.Context, c interp.HandlerContext, args []string) error {
	if len(args) == 0 || !printField.MatchString(args[0]) {
		return fmt.Errorf("only {print $N} is known here")
	}
	n, err := strconv.Atoi(printField.FindStringSubmatch(args[0])[1])
	if err != nil {
		return err
	}
	all, err := lines(c, args[1:])
	for _, line := range all {
		if words := strings.Fields(line); n > len(words) {
			line = ""
		} else if n > 0 {
			line = words[n-1]
		}
		fmt.Fprintln(c.Stdout, line)
	}
	return err
}

// hexdump prints files as hexdump -C does: offset, sixteen bytes and what they are in ASCII, and the length at the end.
func hexdump(_ context.Context, c interp.HandlerContext, args []string) error {
	options, names := split(args)
	if !slices.Equal(options, []string{"-C"}) {
		return fmt.Errorf("only -C is known here")
	}
	r, done, err := inputs(c, names)
	if err != nil {
		return err
	}
	defer done()
	d := hex.Dumper(c.Stdout)
	n, err := io.Copy(d, r)
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	fmt.Fprintf(c.Stdout, "%08x\n", n)
	return nil
}
