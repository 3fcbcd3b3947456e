package main

import (
	"os"
	"os/signal"
	"syscall"
)

// reaper returns a channel that receives when a child may have ended. In a shared PID namespace every orphan becomes
// our child.
func reaper() <-chan os.Signal {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	return children
}

// collect takes the end of every child that has ended: several ends may come as one signal.
func collect() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
