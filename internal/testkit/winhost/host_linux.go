package winhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/kubernetes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

const (
	relayAddress = "127.0.0.1:10091"
	pipe         = `\\.\pipe\containerd-containerd`
	doLimit      = 2 * time.Minute // for a command of porthole
)

// Host is an emulated Windows host with containerd.exe.
type Host struct {
	// Porthole is the program; the other programs lie beside it as `make build` puts them.
	Porthole string
	// Dir is the state folder, Name the host's name in it.
	Dir, Name string
	// Runtime and Images are clients of containerd.exe, once ConnectRuntime has made them.
	Runtime cri.RuntimeServiceClient
	Images  cri.ImageServiceClient
	// Client has all rights on the control plane, once StartControlPlane has made it.
	Client kubernetes.Interface

	plane testkit.ControlPlane
	stops []func()
}

// Create makes a host of a Windows build and starts it.
func Create(ctx context.Context, h Host, build string) (*Host, error) {
	if _, err := h.Do(ctx, "create", h.Name, "--build", build, "--runtime", "containerd.exe"); err != nil {
		return nil, err
	}
	return &h, nil
}

// Close ends what was started on the host, the newest first.
func (h *Host) Close() {
	for _, stop := range slices.Backward(h.stops) {
		stop()
	}
	h.stops = nil
}

// Delete closes the host and removes it.
func (h *Host) Delete() error {
	h.Close()
	_, err := h.Do(context.Background(), "delete", h.Name)
	return err
}

// Do runs a command of `porthole host` and returns what it printed.
func (h *Host) Do(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, doLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Porthole, append([]string{"host", args[0], "--dir", h.Dir}, args[1:]...)...)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("porthole host %v: %w\n%s%s", args, err, out.String(), errs.String())
	}
	return out.String(), nil
}

// DriveC is the host's C: as Linux has it.
func (h *Host) DriveC() string { return filepath.Join(h.Dir, "hosts", h.Name, "prefix", "drive_c") }

// Netns is the path of the host's network namespace.
func (h *Host) Netns() string { return platform.NetnsPath("porthole-" + h.Name) }

// Log is the file of what a program that was started here has printed.
func (h *Host) Log(name string) string { return filepath.Join(h.Dir, h.Name+"-"+name+".log") }

// bundled is a third-party program.
func (h *Host) bundled(name string) string {
	return filepath.Join(filepath.Dir(h.Porthole), "bundle", name)
}

// buildProgram builds a Windows program of this module.
func (h *Host) buildProgram(ctx context.Context, folder string) (string, error) {
	to := filepath.Join(h.Dir, filepath.Base(folder)+".exe")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "porthole.dev/porthole/"+folder)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", folder, err, out)
	}
	return to, nil
}

// ConnectRuntime makes the clients of containerd.exe.
func (h *Host) ConnectRuntime(ctx context.Context) error {
	program, err := h.buildProgram(ctx, "test/runtime/testdata/relay")
	if err != nil {
		return err
	}
	if _, err := h.run("relay", program, relayAddress, pipe); err != nil {
		return err
	}
	dial := testkit.DialIn(h.Netns())
	conn, err := grpc.NewClient("passthrough:///containerd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dial(ctx, "tcp4", relayAddress)
		}))
	if err != nil {
		return err
	}
	h.stops = append(h.stops, func() { conn.Close() })
	h.Runtime = cri.NewRuntimeServiceClient(conn)
	h.Images = cri.NewImageServiceClient(conn)
	return nil
}

// run starts a Windows program on the host, which runs until Close.
func (h *Host) run(name, program string, args ...string) (*Process, error) {
	return h.start(name, "", exec.Command(h.Porthole,
		append([]string{"host", "run", "--dir", h.Dir, h.Name, "--", program}, args...)...))
}

// start starts a command in a network namespace, "" for this one's; it runs until Close.
func (h *Host) start(name, netns string, cmd *exec.Cmd) (*Process, error) {
	log, err := os.OpenFile(h.Log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.WaitDelay = time.Second
	if err := platform.StartInNetns(netns, cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	h.stops = append(h.stops, p.Kill)
	return p, nil
}

// Process is a program that was started on the host.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// PID is the process's id on this machine.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as a crash would, and returns when it is gone. It does nothing to one that has ended.
func (p *Process) Kill() {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.done
	}
}

// stop asks a Linux program to end, and waits until it has.
func (p *Process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.Kill()
	}
}

// ended returns an error if the process has ended.
func (p *Process) ended() error {
	select {
	case <-p.done:
		return errors.New("the program has ended")
	default:
		return nil
	}
}

// write makes a file on the host's C:.
func (h *Host) write(path, text string) error {
	return testkit.WriteGuest(h.DriveC(), path, []byte(text), 0o644)
}
