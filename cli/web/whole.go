package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/web/serve"
)

// alone is the name of the program that has this command only, and wholeName that of the one with all commands, which
// lies beside it.
const alone, wholeName = "porthole-web", "porthole"

// whole answers a question that is rarely asked with another command of porthole, as JSON: what that needs takes no
// memory of the page's server (ADR 2). The command is one of the cluster that the page shows.
func (q *questions) whole(ctx context.Context, args ...string) (any, error) {
	path, err := wholeProgram()
	if err != nil {
		return nil, err
	}
	cluster := "--dir=" + q.flags.Dir
	if q.flags.Kubeconfig != "" {
		cluster = "--kubeconfig=" + q.flags.Kubeconfig
	}
	rest := len(args)
	for i, a := range args {
		if a == "--" {
			rest = i
			break
		}
	}
	args = append(append(append([]string{}, args[:rest]...), cluster), args[rest:]...)

	cmd := exec.CommandContext(ctx, path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	return answered(out.Bytes(), errs.String(), err)
}

// answered is what a command answered: JSON, also when it ended with 1, which says that something is not right.
// Otherwise it wrote why not.
func answered(out []byte, errs string, err error) (any, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("starting porthole: %w", err)
	}
	if json.Valid(out) && (exit == nil || exit.ExitCode() == 1) {
		return json.RawMessage(out), nil
	}
	text := strings.TrimPrefix(strings.TrimSpace(errs), "porthole: ")
	if text == "" {
		text = fmt.Sprintf("porthole ended without an answer: %v", err)
	}
	return nil, &serve.Misuse{Text: text}
}

// wholeProgram returns the path of the program with all commands: this one, or the one beside porthole-web.
func wholeProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	if !strings.HasPrefix(filepath.Base(self), alone) {
		return self, nil
	}
	path, err := program.Beside(wholeName)
	if err == nil && path == "" {
		err = fmt.Errorf("the program porthole is not beside %s: this question needs it", self)
	}
	return path, err
}
