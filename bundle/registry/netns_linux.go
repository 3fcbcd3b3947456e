package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNetns runs f on a thread that is in the network namespace at path. The thread ends with it.
func inNetns(path string, f func() error) error {
	if path == "" {
		return f()
	}

	errs := make(chan error, 1)
	go func() {
		// The thread is not unlocked: it must not be used for anything else, and ends with the
		// goroutine.
		runtime.LockOSThread()
		file, err := os.Open(path)
		if err != nil {
			errs <- fmt.Errorf("opening network namespace: %w", err)
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			errs <- fmt.Errorf("entering network namespace %s: %w", path, err)
			return
		}
		errs <- f()
	}()
	return <-errs
}
