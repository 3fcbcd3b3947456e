// Command exitcode exits with code 7 while it starts one thread after the other, each of which ends at once.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

func main() {
	kernel := windows.NewLazySystemDLL("kernel32.dll")
	create, exit := kernel.NewProc("CreateThread"), kernel.NewProc("ExitThread")
	begun := make(chan error, 1)
	go func() {
		for {
			thread, _, err := create.Call(0, 0, exit.Addr(), 0, 0, 0)
			if thread == 0 {
				begun <- err
				return
			}
			_ = windows.CloseHandle(windows.Handle(thread))
			select {
			case begun <- nil:
			default:
			}
		}
	}()

	if err := <-begun; err != nil {
		fmt.Println("CreateThread:", err)
		os.Exit(1)
	}
	time.Sleep(20 * time.Millisecond) // threads come and go
	os.Exit(7)
}
