package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster"
)

// stay waits for the end of ctx, which a signal brings, and takes the cluster down. A second signal ends it at once: then
// `porthole down` has to be called.
func stay(ctx context.Context, l cluster.Layout, out io.Writer) error {
	if _, err := fmt.Fprintln(out, "the cluster stays until SIGTERM or Ctrl-C"); err != nil {
		return err
	}
	if err := reap(ctx); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, unix.SIGTERM)
	defer stop()
	return cluster.Down(ctx, cluster.DownOptions{Layout: l, Out: out})
}

// reap waits until ctx ends, and until then for the ends of children. The first process of a container is the parent of each whose own
// one has ended, and nobody else takes note of their ends. Nothing else of this process may have children meanwhile.
func reap(ctx context.Context) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil && !errors.Is(err, unix.ECHILD) {
				return fmt.Errorf("waiting for the ends of processes: %w", err)
			}
			if pid <= 0 {
				break
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
		}
	}
}
