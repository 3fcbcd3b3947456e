// Program pipe serves a named pipe, or asks one.
//
//	pipe serve PIPE        answers each line with "answer to LINE", until it is killed
//	pipe ask PIPE WORD     sends WORD and a large block after it, and prints the answer to WORD and whether the block came back
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/Microsoft/go-winio"
)

func main() {
	err := fmt.Errorf("usage: pipe serve PIPE | ask PIPE WORD")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		err = serve(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "ask":
		err = ask(os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Println("pipe:", err)
		os.Exit(1)
	}
}

func serve(pipe string) error {
	l, err := winio.ListenPipe(pipe, nil)
	if err != nil {
		return err
	}
	fmt.Println("serving", pipe)
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(c)
	}
}

// answer answers a line, and sends back what follows.
func answer(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(c, "answer to %s", line)
	_, _ = io.Copy(c, r)
}

// large is more than the buffers of a pipe and of a socket.
const large = 1 << 20

func ask(pipe, word string) error {
	limit := 10 * time.Second
	c, err := winio.DialPipe(pipe, &limit)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(3 * limit)); err != nil {
		return err
	}
	block := bytes.Repeat([]byte("block "), large/6)
	go func() {
		_, _ = fmt.Fprintln(c, word)
		_, _ = c.Write(block)
	}()

	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	back := make([]byte, len(block))
	_, err = io.ReadFull(r, back)
	fmt.Printf("%s: %s same %t\n", word, line[:len(line)-1], err == nil && bytes.Equal(back, block))
	return err
}
