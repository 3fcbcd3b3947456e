// Command pairs stands in for csi-driver-host-path in its role as a proxy, by which upstream's tests serve a driver's
// socket on a node from their own process: it listens at a Unix socket and at a TCP port, and joins each connection of
// the one with one of the other.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pairs:", err)
		os.Exit(1)
	}
}

func run() error {
	socket := flag.String("endpoint", "", "path of the Unix socket")
	port := flag.String("proxy-endpoint", "", "tcp://:PORT")
	// The flag exists because the driver has it.
	flag.Int("v", 0, "without effect")
	flag.Parse()

	path := strings.TrimPrefix(*socket, "unix://")
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	node, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	test, err := net.Listen("tcp", strings.TrimPrefix(*port, "tcp://"))
	if err != nil {
		return err
	}

	// The test's connections wait in the queue of the port until somebody wants one.
	// The connections of the driver and those of the test are paired in the order in which they
	// come.
	for {
		here, err := node.Accept()
		if err != nil {
			return fmt.Errorf("accepting at %s: %w", path, err)
		}
		there, err := test.Accept()
		if err != nil {
			return fmt.Errorf("accepting at %s: %w", *port, err)
		}
		go join(here, there)
		go join(there, here)
	}
}

// join copies until from ends, and ends to.
// Each pair has two of these; the first to end closes its target, which ends the other one.
func join(from, to net.Conn) {
	defer to.Close()
	_, _ = io.Copy(to, from)
}
