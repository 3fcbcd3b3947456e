package wine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"porthole.dev/porthole/internal/slow"
)

// PipeProgram forwards the connections of a named pipe to a TCP port of the loopback: PipeProgram PIPE PORT.
const PipeProgram = `C:\windows\system32\porthole-pipe.exe`

// pipesName is a file of the template with what checkPipes found: empty if named pipes work.
const pipesName = ".porthole-pipes"

// checkPipes tries a named pipe in the template and keeps the result for PipeProblem. It is no error if pipes do not
// work, because most programs need none.
func (t Tools) checkPipes(ctx context.Context, p Prefix) error {
	bounded, cancel := context.WithTimeout(ctx, slow.Limit(30*time.Second))
	defer cancel()
	out, err := t.Command(bounded, p, PipeProgram, "--check").CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("named pipes of this Wine do not work: %v: %s", err, bytes.TrimSpace(out))
	}
	stop, cancel := context.WithTimeout(ctx, slow.Limit(30*time.Second))
	defer cancel()
	return errors.Join(t.StopServer(stop, p), os.WriteFile(filepath.Join(p.Dir, pipesName), []byte(problem), 0o644))
}

// PipeProblem returns why programs of the prefix cannot use named pipes; "" if they can.
func (p Prefix) PipeProblem() string {
	text, err := p.ReadFile(pipesName)
	if errors.Is(err, os.ErrNotExist) {
		return "the host's C: was made before named pipes were checked; `porthole down --purge` makes a new one"
	}
	if err != nil {
		return err.Error()
	}
	return string(text)
}
