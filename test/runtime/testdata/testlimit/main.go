// Command testlimit does what Sysinternals' testlimit.exe does for containerd's tests: it takes memory, and writes to
// all of it.
//
//	testlimit.exe -accepteula -d MB -c COUNT
//
// It keeps COUNT pieces of MB megabytes until it is ended.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	flag.Bool("accepteula", false, "for a program that has a licence")
	size := flag.Int("d", 1, "MB of each piece")
	count := flag.Int("c", 1, "number of pieces")
	flag.Parse()

	pieces := make([][]byte, *count)
	for i := range pieces {
		pieces[i] = make([]byte, *size<<20)
		for at := 0; at < len(pieces[i]); at += 4096 { // every page
			pieces[i][at] = 1
		}
	}
	fmt.Printf("%d pieces of %d MB\n", *count, *size)

	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	<-end
	fmt.Println("had", len(pieces)) // so that the pieces are used until here
}
