package host

import (
	"context"
	"net"
	"os"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/slow"
)

// runtimeClient returns a client of the host's containerd.exe. The caller closes it.
func runtimeClient(h Host) (*containerd.Client, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return dialPipe(context.WithoutCancel(ctx), h, RuntimePipe) // ctx ends when the connection stands
	}
	return containerd.New("/"+ContainerdExe, containerd.WithTimeout(slow.Limit(5*time.Second)),
		containerd.WithExtraDialOpts([]grpc.DialOption{grpc.WithContextDialer(dial)}))
}

// dialPipe connects to a named pipe of the host. Such a pipe exists between the programs of the host only: one
// of them connects for us, and ends with the connection. The connection ends at once if there is no such pipe.
func dialPipe(ctx context.Context, h Host, pipe string) (net.Conn, error) {
	cmd, err := h.Program(ctx, wine.PipeProgram, "--open", pipe)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours := os.NewFile(uintptr(pair[0]), pipe)
	its := os.NewFile(uintptr(pair[1]), pipe)
	defer ours.Close() // the connection is another one of it
	defer its.Close()

	cmd.Stdin = its
	if err := cmd.Start(ctx); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }() // who reads from the connection learns that it has ended
	return net.FileConn(ours)
}
