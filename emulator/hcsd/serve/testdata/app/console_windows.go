package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/windows"
)

// onConsole prints the size of its console whenever it changes, and ends with the code that is typed, or with 5 when
// nothing can be typed any more. A deaf one reads nothing: an interruption ends what is being read too.
func onConsole(asked <-chan os.Signal, deaf bool) int {
	codes := make(chan int)
	if !deaf {
		go func() { codes <- typed() }()
	}
	seen := ""
	for {
		var info windows.ConsoleScreenBufferInfo
		if err := windows.GetConsoleScreenBufferInfo(windows.Handle(os.Stdout.Fd()), &info); err == nil {
			if size := fmt.Sprintf("columns=%d,lines=%d,", info.Size.X, info.Size.Y); size != seen {
				seen = size
				fmt.Println(size)
			}
		}

		select {
		case code := <-codes:
			return code
		case <-asked:
			fmt.Println("interrupted")
			return 7
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func typed() int {
	s := bufio.NewScanner(os.Stdin)
	if !s.Scan() {
		return 5
	}
	code, err := strconv.Atoi(strings.TrimSpace(s.Text()))
	if err != nil {
		return 6
	}
	return code
}
