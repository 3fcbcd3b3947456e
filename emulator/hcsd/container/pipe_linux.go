package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/slow"
)

// A named pipe of the host that is mapped into a container. Pipes of Wine exist between the programs of one
// wineserver, so that bytes go
//
//	program ──pipe──▶ porthole-pipe.exe of the container ──socket──▶ hcsd ──▶ porthole-pipe.exe of the host ──pipe──▶ its server
//
// with a program of the host for each connection, which has the socket as its input. A pipe that nobody serves can be
// opened in the container, and has ended then.

// pipeSocket is the socket of one of a container's pipes, in its folder of pipes.
func pipeSocket(folder string, i int) string { return filepath.Join(folder, fmt.Sprintf("pipe%d", i)) }

// MapPipes makes pipes of the host pipes of a container that has just been started.
func (r *Runtime) MapPipes(ctx context.Context, of Pipes, server Launch) error {
	if len(of.Pipes) == 0 {
		return nil
	}
	stop, err := r.ListenPipes(ctx, of)
	if err == nil {
		err = r.servePipes(ctx, of, server)
	}
	if err != nil {
		stop()
	}
	return err
}

// Pipes are the mapped pipes of a container.
type Pipes struct {
	ID, Key string
	Pipes   []hcsd.MappedPipe
	Over    <-chan struct{} // closed when the container has ended
}

// ListenPipes listens for what a container's programs open, until the container has ended or stop is called.
func (r *Runtime) ListenPipes(ctx context.Context, of Pipes) (stop func(), err error) {
	folder := r.bundle(of.Key).pipes()
	ctx, cancel := context.WithCancel(ctx)
	for i, p := range of.Pipes {
		l, err := listenAt(pipeSocket(folder, i))
		if err != nil {
			return cancel, fmt.Errorf("mapping pipe %s: %w", p.HostPath, err)
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		go r.acceptPipe(ctx, l, p.HostPath)
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-of.Over:
		}
		cancel()
	}()
	return cancel, nil
}

// pipeReady ends the names of the files that the program in a container writes when it serves the pipe of that number.
const pipeReady = "pipe"

// listenAt listens at a socket whose path may be longer than Linux lets a socket's address be (108 bytes).
func listenAt(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	// the name holds for this moment only; the socket goes with the folder
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	// The container may connect. It cannot change the folder.
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// acceptPipe connects each program that opens the pipe. It ends when the listener is closed.
func (r *Runtime) acceptPipe(ctx context.Context, l net.Listener, pipe string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // with its listener
		}
		go func() {
			if err := r.connectPipe(ctx, conn, pipe); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Connecting a container to a pipe of the host", "pipe", pipe)
			}
		}()
	}
}

// connectPipe has a program of the host connect to the pipe, and returns when the connection has ended.
func (r *Runtime) connectPipe(ctx context.Context, conn net.Conn, pipe string) error {
	socket, err := conn.(*net.UnixConn).File()
	_ = conn.Close() // socket is another one of it
	if err != nil {
		return err
	}
	defer socket.Close()
	cmd := r.o.Tools.Command(ctx, wine.Prefix{Dir: filepath.Join(r.host.Dir, "prefix")}, wine.PipeProgram, "--open",
		pipe)
	var said strings.Builder
	cmd.Stdin, cmd.Stderr = socket, &said
	err = confine.Start(ctx, r.host.Dir, cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// servePipes starts the program that serves the pipes in the container, and returns when they can be opened there.
func (r *Runtime) servePipes(ctx context.Context, of Pipes, server Launch) error {
	line := []string{wine.PipeProgram, "--serve"}
	for i, p := range of.Pipes {
		line = append(line, `"`+p.ContainerPipeName+`"`, pipeSocket(guest.Pipes, i), guest.Run+"/"+fileOf(i, pipeReady))
	}
	server.Doc = hcsd.Process{CommandLine: strings.Join(line, " ")}
	program, streams, err := r.Launch(ctx, server)
	if err != nil {
		return fmt.Errorf("serving the mapped pipes of %s: %w", of.ID, err)
	}

	streams.Close() // nobody reads what it says
	folder, err := r.bundle(of.Key).openRun()
	if err != nil {
		return err
	}
	defer folder.close()
	ready := func(i int) bool { _, err := folder.root.Lstat(fileOf(i, pipeReady)); return err == nil }
	limited, cancel := context.WithTimeout(ctx, slow.Limit(startLimit))
	defer cancel()
	err = poll(limited, every, func() bool {
		return !program.Alive() || !slices.ContainsFunc(indices(of.Pipes), func(i int) bool { return !ready(i) })
	})
	if err == nil && !program.Alive() {
		err = hcsd.ErrUnexpectedExit
	}
	if err != nil {
		return fmt.Errorf("serving the mapped pipes of %s: %w", of.ID, err)
	}
	return nil
}

func indices(pipes []hcsd.MappedPipe) (list []int) {
	for i := range pipes {
		list = append(list, i)
	}
	return list
}
