// Command listener listens at the TCP ports that are its arguments, on every address, until its standard input ends.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	for _, port := range os.Args[1:] {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				conn.Close()
			}
		}()
	}
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
