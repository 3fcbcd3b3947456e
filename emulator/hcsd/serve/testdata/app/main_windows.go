// App copies its input to its output, if it has an argument, runs on a console (onConsole), or leaves it to Windows how a signal ends it
// ("plain"). Else it waits for the end that a signal brings, says which signal it was, and ends with a code of 32 bits.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "plain" {
		fmt.Println("ready")
		time.Sleep(time.Hour)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	if len(os.Args) > 1 && os.Args[1] == "console" {
		os.Exit(onConsole(asked, len(os.Args) > 2))
	}
	if len(os.Args) > 1 {
		n, err := io.Copy(os.Stdout, os.Stdin)
		fmt.Println(n, err)
		return
	}
	fmt.Println("ready")
	fmt.Println(<-asked)
	os.Exit(0xc000013a)
}
