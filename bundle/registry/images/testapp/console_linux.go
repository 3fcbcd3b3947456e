package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize is the size of the terminal that standard output is.
func terminalSize() (columns, lines int, err error) {
	size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, err
	}
	return int(size.Col), int(size.Row), nil
}
