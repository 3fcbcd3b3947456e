// Command agent runs in the virtual machine of package vm. It gives the machine its address, and runs the
// scripts that the test sends by HTTP.
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
)

// The address that QEMU's user network expects of the first machine, and the agent's port. Package vm forwards
// to them.
const (
	card    = "eth0"
	address = "10.0.2.15/24"
	port    = ":7000"
)

func main() {
	if err := connect(); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /run", run)
	log.Fatal(http.ListenAndServe(port, nil))
}

// run has bash execute the body of a request. The answer is what the script prints, as soon as it does; the
// trailer Exit is its exit code, or why it did not run.
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
