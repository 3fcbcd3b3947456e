package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// RunUntil runs a command to its end, or kills it after limit. It calls then once, when the command prints a line with
// text to its standard output; the command goes on meanwhile. It returns the exit code and all that was printed, and
// an error if the text never was.
func RunUntil(cmd *exec.Cmd, limit time.Duration, text string, then func()) (code int, out string, err error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		return 0, "", err
	}
	stop := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() }) // one that has ended needs no killing
	defer stop.Stop()

	var all strings.Builder
	seen := false
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if !seen && strings.Contains(lines.Text(), text) {
			seen = true
			then()
		}
	}
	_ = cmd.Wait() // its code tells
	if !seen {
		err = fmt.Errorf("%q was never printed: %s%s", text, all.String(), errs.String())
	}
	return cmd.ProcessState.ExitCode(), all.String() + errs.String(), err
}
