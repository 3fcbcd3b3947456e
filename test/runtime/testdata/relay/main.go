// Program relay accepts TCP connections at the address that is its first argument, and passes each on to the named
// pipe that is its second.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/Microsoft/go-winio"
)

func main() {
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func serve(address, pipe string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go pass(c, pipe)
	}
}

func pass(c net.Conn, pipe string) {
	defer c.Close()
	limit := 10 * time.Second
	p, err := winio.DialPipe(pipe, &limit)
	if err != nil {
		return // the caller sees its connection end
	}
	defer p.Close()
	go func() {
		defer p.Close()
		_, _ = io.Copy(p, c)
	}()
	_, _ = io.Copy(c, p)
}
