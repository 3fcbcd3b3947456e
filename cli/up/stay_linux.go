package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// stay waits for the end of ctx, which a signal brings, and takes the cluster down. That is done by another process,
// because this one goes on taking note of the ends of others: `porthole down` waits for these.
func stay(ctx context.Context, dir string, out io.Writer) error {
	if _, err := fmt.Fprintln(out, "the cluster stays until SIGTERM or Ctrl-C"); err != nil {
		return err
	}
	if _, err := reap(ctx, 0); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	down, err := os.StartProcess(self, []string{self, "down", "--dir", dir}, &os.ProcAttr{Files: files})
	if err != nil {
		return fmt.Errorf("starting `porthole down`: %w", err)
	}

	status, err := reap(context.WithoutCancel(ctx), down.Pid)
	if err == nil && status != 0 {
		err = errors.New("the cluster is not down: the lines above say why")
	}
	return err
}

// reap takes note of the ends of children until ctx ends, or until the process pid has ended, whose status it
// returns. The first process of a container is the parent of each whose own one has ended, and nobody else takes note
// of their ends. Nothing else of this process may wait for children meanwhile.
func reap(ctx context.Context, pid int) (status unix.WaitStatus, err error) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		child, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR), err == nil && child > 0 && child != pid:
			continue
		case err == nil && child > 0:
			return status, nil
		case err != nil && !errors.Is(err, unix.ECHILD):
			return 0, fmt.Errorf("waiting for the ends of processes: %w", err)
		}

		select {
		case <-ctx.Done():
			return 0, nil
		case <-ended:
		}
	}
}
