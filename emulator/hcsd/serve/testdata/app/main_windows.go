// App is a program in a container of the tests. Without an argument it waits for a signal, prints which one came, and ends with an exit code of
// 32 bits. With the argument "plain" it does not handle signals, so that Windows ends it; with "console" it does what onConsole says;
// "environment" prints its variables, "arguments" its arguments as JSON, "readlink" where a link leads, "link" makes one; with any other it copies its input to its output.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
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
	if len(os.Args) > 1 && os.Args[1] == "environment" {
		fmt.Println(strings.Join(os.Environ(), "\n"))
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "readlink" {
		fmt.Println(os.Readlink(os.Args[2]))
		return
	}
	if len(os.Args) > 3 && os.Args[1] == "link" {
		fmt.Println(os.Symlink(os.Args[2], os.Args[3]))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "arguments" {
		_ = json.NewEncoder(os.Stdout).Encode(os.Args[1:])
		return
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
