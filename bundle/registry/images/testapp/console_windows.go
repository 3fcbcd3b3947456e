package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalSize is the size of the window of the console that standard output is.
func terminalSize() (columns, lines int, err error) {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(os.Stdout.Fd()), &info); err != nil {
		return 0, 0, err
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1, nil
}
