// Command agent runs in a virtual machine of package vm: it sets the machine's address, and runs the scripts that it is sent.
//
// As first process (init=/agent, a machine without systemd) it also mounts what systemd would, and collects the processes that nobody waits for.
package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The address that QEMU's user network gives the first machine, and the port of the scripts (package vm has the same).
const (
	card    = "eth0"
	address = "10.0.2.15/24"
	port    = ":7000"
)

func main() {
	if os.Getpid() == 1 {
		log.Fatal(first())
	}
	if err := connect(); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /run", run)
	log.Fatal(http.ListenAndServe(port, nil))
}

// run executes the script of a request. The answer is what the script prints, while it prints it; the trailer Exit tells how it ended.
func run(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "Exit")
	script := exec.CommandContext(r.Context(), "/bin/bash", "-s")
	script.Stdin = r.Body
	out := flushed{w, http.NewResponseController(w)}
	script.Stdout, script.Stderr = out, out
	script.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root")
	err := script.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		w.Header().Set("Exit", "0")
	case errors.As(err, &ended):
		w.Header().Set("Exit", strconv.Itoa(ended.ExitCode()))
	default:
		w.Header().Set("Exit", err.Error())
	}
}

type flushed struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	return n, errors.Join(err, f.control.Flush())
}

// connect gives the machine its address.
func connect() error {
	for _, name := range []string{"lo", card} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		if name == card {
			to, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			if err := netlink.AddrReplace(link, to); err != nil {
				return fmt.Errorf("address of %s: %w", name, err)
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
	}
	return netlink.RouteReplace(&netlink.Route{Gw: net.IPv4(10, 0, 2, 2)})
}

// mounts are what a machine has beside its root.
var mounts = []struct{ kind, on string }{
	{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"}, {"devpts", "/dev/pts"}, {"tmpfs", "/dev/shm"},
	{"cgroup2", "/sys/fs/cgroup"},
}

// first is the first process: its child is the agent.
func first() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.on, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.on, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mounting %s on %s: %w", m.kind, m.on, err)
		}
	}
	agent := exec.Command("/proc/self/exe")
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	if err := agent.Start(); err != nil {
		return err
	}
	for {
		if pid, err := unix.Wait4(-1, nil, 0, nil); pid == agent.Process.Pid || err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("the agent ended: %d: %w", pid, err)
		}
	}
}
