// Command pause is what a pod's sandbox runs: it holds the pod's namespaces, collects children and ends when told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	reap := reaper()
	for {
		select {
		case <-signals:
			return
		case <-reap:
			collect()
		}
	}
}
