// Package loopback has what tests need of the machine's loopback. It imports the standard library only.
package loopback

import "net"

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on at the moment.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
