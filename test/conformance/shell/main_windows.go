package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"mvdan.cc/sh/moreinterp/coreutils"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// main ends with the status of the script, or with 1 if it could not be run.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(os.Args[0])), ".exe")
	err := run(ctx, name, os.Args[1:])
	stop()
	var status interp.ExitStatus
	switch {
	case err == nil:
	case errors.As(err, &status):
		os.Exit(int(status))
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// run is one program of the set: a shell, or a command as the shell would run it.
// As busybox, the program takes its name from its first word if it is called by its own.
func run(ctx context.Context, name string, args []string) error {
	if name != "sh" && name != "bash" && name != "busybox" {
		return command(ctx, append([]string{name}, args...))
	}
	if name == "busybox" && len(args) > 0 {
		return run(ctx, args[0], args[1:])
	}
	flags := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flags += args[0][1:]
		args = args[1:]
	}

	// The script is the word after -c, a file, or standard input.
	var script io.Reader = os.Stdin
	label := "sh"
	switch {
	case strings.Contains(flags, "c") && len(args) > 0:
		script = strings.NewReader(args[0])
		args = args[1:]
		if len(args) > 0 {
			args = args[1:] // the name that the script is to have
		}
	case len(args) > 0:
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		script, label, args = f, args[0], args[1:]
	}

	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(script, label)
	if err != nil {
		return err
	}
	keepPatterns(file)
	return interpret(ctx, file, strings.Contains(flags, "e"), args)
}

// command runs one command with these arguments as they are.
// Quotes keep the shell from reading anything into the words.
func command(ctx context.Context, words []string) error {
	call := &syntax.CallExpr{}
	for _, w := range words {
		call.Args = append(call.Args, &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: w}}})
	}
	return interpret(ctx, &syntax.File{Stmts: []*syntax.Stmt{{Cmd: call}}}, false, nil)
}

// interpret runs a script with our commands first, then the core utilities, and then programs.
func interpret(ctx context.Context, file *syntax.File, exitOnError bool, args []string) error {
	params := []string{"--"}
	if exitOnError {
		params = []string{"-e", "--"}
	}
	r, err := interp.New(
		interp.Env(expand.ListEnviron(os.Environ()...)), interp.StdIO(os.Stdin, os.Stdout, os.Stderr),
		interp.Params(append(params, args...)...), interp.ExecHandlers(own, coreutils.ExecHandler))
	if err != nil {
		return err
	}
	return r.Run(ctx, file)
}
