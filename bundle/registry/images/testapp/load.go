package main

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// hog holds the memory that the program took, so that the garbage collector cannot free it.
var hogged [][]byte

// hog takes memory MiB by MiB and keeps it until it is told to stop. It prints how far it is, so
// that a test sees where a limit ended it.
func hog(args []string) error {
	if len(args) == 0 {
		return errors.New("hog needs a number of MiB")
	}
	mib, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}

	// Every page is written to, because memory that is only allocated takes no space.
	const page = 4096
	for i := range mib {
		block := make([]byte, 1<<20)
		for at := 0; at < len(block); at += page {
			block[at] = byte(i + 1)
		}
		hogged = append(hogged, block)
		if i%16 == 15 {
			fmt.Printf("%d MiB\n", i+1)
		}
	}

	fmt.Printf("holding %d MiB\n", mib)
	waitForStop()
	return nil
}

// burn keeps THREADS threads busy and prints, each second, how many CPU seconds the process got.
func burn(args []string) error {
	threads := runtime.NumCPU()
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		threads = n
	}

	// One thread more than those that compute: it prints.
	runtime.GOMAXPROCS(threads + 1)
	var stop atomic.Bool
	for range threads {
		go func() {
			for n := uint64(1); !stop.Load(); n = n*6364136223846793005 + 1 {
				_ = n
			}
		}()
	}
	defer stop.Store(true)

	// Without a number of seconds end is nil, and burn goes on until it is told to stop.
	var end <-chan time.Time
	if limit := seconds(args, 0, 0); limit > 0 {
		end = time.After(limit)
	}

	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begin := time.Now()
	last := time.Now()
	lastCPU := cpuTime()
	first := lastCPU
	for {
		select {
		case now := <-tick.C:
			used := cpuTime()
			fmt.Printf("cpu %.2f\n", (used-lastCPU).Seconds()/now.Sub(last).Seconds())
			last, lastCPU = now, used
		case <-end:
			fmt.Printf("average %.2f\n", (cpuTime()-first).Seconds()/time.Since(begin).Seconds())
			return nil
		case <-stopSignal():
			return nil
		}
	}
}
