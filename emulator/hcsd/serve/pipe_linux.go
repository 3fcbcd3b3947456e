package serve

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

// mapPipes makes pipes of the host pipes of a container that has just been started; init is its first process.
func (s systemCalls) mapPipes(ctx context.Context, sys *hcsd.System, c *container, init process) error {
	pipes := sys.Doc.Container.MappedPipes
	if len(pipes) == 0 {
		return nil
	}
	stop, err := s.listenPipes(ctx, c, pipes)
	if err == nil {
		err = s.servePipes(ctx, sys, c, init)
	}
	if err != nil {
		stop()
	}
	return err
}

// listenPipes listens for what a container's programs open, until the container has ended or stop is called.
func (s systemCalls) listenPipes(ctx context.Context, c *container, pipes []hcsd.MappedPipe) (stop func(), err error) {
	folder := pipesDir(s.o.systemDir(c.key))
	ctx, cancel := context.WithCancel(ctx)
	for i, p := range pipes {
		l, err := listenAt(pipeSocket(folder, i))
		if err != nil {
			return cancel, fmt.Errorf("mapping pipe %s: %w", p.HostPath, err)
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		go s.acceptPipe(ctx, l, p.HostPath)
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-c.ended:
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

func (s systemCalls) acceptPipe(ctx context.Context, l net.Listener, pipe string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // with its listener
		}
		go func() {
			if err := s.openPipe(ctx, conn, pipe); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Connecting a container to a pipe of the host", "pipe", pipe)
			}
		}()
	}
}

// openPipe has a program of the host connect to the pipe, and returns when the connection has ended.
func (s systemCalls) openPipe(ctx context.Context, conn net.Conn, pipe string) error {
	socket, err := conn.(*net.UnixConn).File()
	_ = conn.Close() // socket is another one of it
	if err != nil {
		return err
	}
	defer socket.Close()
	cmd := s.o.Tools.Command(ctx, wine.Prefix{Dir: filepath.Join(s.o.HostDir, "prefix")}, wine.PipeProgram, "--open",
		pipe)
	var said strings.Builder
	cmd.Stdin, cmd.Stderr = socket, &said
	err = confine.Start(ctx, s.o.HostDir, cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// servePipes starts the program that serves the pipes in the container, and returns when they can be opened there.
func (s systemCalls) servePipes(ctx context.Context, sys *hcsd.System, c *container, init process) error {
	pipes := sys.Doc.Container.MappedPipes
	line := []string{wine.PipeProgram, "--serve"}
	for i, p := range pipes {
		line = append(line, `"`+p.ContainerPipeName+`"`, pipeSocket(guest.Pipes, i), guest.Run+"/"+fileOf(i, pipeReady))
	}
	server, err := programCalls(s).launch(ctx, sys, c, init, hcsd.Process{CommandLine: strings.Join(line, " ")})
	if err != nil {
		return fmt.Errorf("serving the mapped pipes of %s: %w", c.id, err)
	}

	server.io.close() // nobody reads what it says
	folder, err := s.o.openRun(c.key)
	if err != nil {
		return err
	}
	defer folder.close()
	ready := func(i int) bool { _, err := folder.root.Lstat(fileOf(i, pipeReady)); return err == nil }
	limited, cancel := context.WithTimeout(ctx, slow.Limit(startLimit))
	defer cancel()
	err = poll(limited, every, func() bool {
		return !server.Process.alive() || !slices.ContainsFunc(indices(pipes), func(i int) bool { return !ready(i) })
	})
	if err == nil && !server.Process.alive() {
		err = hcsd.ErrUnexpectedExit
	}
	if err != nil {
		return fmt.Errorf("serving the mapped pipes of %s: %w", c.id, err)
	}
	return nil
}

func indices(pipes []hcsd.MappedPipe) (list []int) {
	for i := range pipes {
		list = append(list, i)
	}
	return list
}
