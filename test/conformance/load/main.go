// Command load uses processors and memory for upstream's resource consumer, in the place of three programs of its
// image, by their names and with their flags: consume-cpu, stress (Linux) and testlimit.exe (Windows).
//
//	consume-cpu -millicores=N -duration-sec=S
//	stress -m 1 --vm-bytes NM --vm-hang 0 -t S
//	testlimit.exe -accepteula -d N[Mb] -e S Ts -c C  C blocks, each S seconds after the last, until it is ended: Microsoft's does so too
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// run does what the program of that name does; names are without .exe.
func run(name string, args []string) error {
	switch name {
	case "consume-cpu":
		millicores, err := number(args, "-millicores=")
		if err != nil {
			return err
		}
		seconds, err := number(args, "-duration-sec=")
		if err != nil {
			return err
		}
		burn(millicores, time.Duration(seconds)*time.Second)
		return nil
	case "stress":
		return stress(args, "--vm-bytes", "-t")
	case "testlimit":
		return blocks(args)
	}
	return fmt.Errorf("%q is none of consume-cpu, stress, testlimit", name)
}

// number returns what follows a flag: in the same word if the flag ends with =, else in the next one.
func number(args []string, flag string) (int, error) {
	for i, arg := range args {
		text, found := strings.CutPrefix(arg, flag)
		if !found || !strings.HasSuffix(flag, "=") && text != "" {
			continue
		}
		if text == "" && i+1 < len(args) {
			text = args[i+1]
		}
		// testlimit's sizes may end in Mb, stress' in M.
		n, err := strconv.Atoi(strings.TrimRight(text, "Mb"))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s: %q is not a number", flag, text)
		}
		return n, nil
	}
	return 0, fmt.Errorf("%s is missing", flag)
}

// pause is between two looks at how much of a processor was used.
const pause = 10 * time.Millisecond

// burn uses so many thousandths of a processor, on average since the start.
func burn(millicores int, limit time.Duration) {
	began, first := time.Now(), used()
	for n := uint64(1); time.Since(began) < limit; {
		// The share is in thousandths: used and passed time are both in nanoseconds.
		if share := 1000 * float64(used()-first) / float64(time.Since(began)); share >= float64(millicores) {
			time.Sleep(pause)
			continue
		}
		// The numbers of a linear congruential generator, so that the loop cannot be left out.
		for range 100_000 {
			n = n*6364136223846793005 + 1
		}
	}
}

// page is the smallest that a system has: one byte in each is written, so that all are in memory.
const page = 4096

// stress holds as many MiB as one flag says for as many seconds as the other says.
func stress(args []string, size, duration string) error {
	mib, err := number(args, size)
	if err != nil {
		return err
	}
	seconds, err := number(args, duration)
	if err != nil {
		return err
	}
	block := take(mib)
	time.Sleep(time.Duration(seconds) * time.Second)
	fmt.Println("held", len(block), "bytes") // and so the block is kept until here
	return nil
}

// blocks takes block after block, and holds them for ever.
func blocks(args []string) error {
	// The size in MiB, the seconds between blocks, and the number of blocks.
	var given [3]int
	for i, flag := range []string{"-d", "-e", "-c"} {
		var err error
		if given[i], err = number(args, flag); err != nil {
			return err
		}
	}
	mib := given[0]
	pause := time.Duration(given[1]) * time.Second
	count := given[2]
	var held [][]byte
	for range count {
		held = append(held, take(mib))
		fmt.Printf("Leaked %d MB of private memory (%d MB total leaked)\n", mib, mib*len(held))
		time.Sleep(pause)
	}
	// The memory is held until the container is ended.
	for {
		time.Sleep(time.Hour)
		runtime.KeepAlive(held)
	}
}

// take allocates as many MiB and writes to each page of them.
func take(mib int) []byte {
	block := make([]byte, mib<<20)
	for at := 0; at < len(block); at += page {
		block[at] = 1
	}
	return block
}
