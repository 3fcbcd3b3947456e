// Threads runs as many threads as it is told, says so, and waits until its input ends.
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
	fmt.Println("running")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
