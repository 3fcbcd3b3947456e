// Threads reads a byte, runs as many threads as it is told, says so, and waits until its input ends. Wine asks
// wineserver for the input when it is read first, and not again.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var running sync.WaitGroup
	running.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread()
			running.Done()
			select {}
		}()
	}
	running.Wait()
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("running")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
