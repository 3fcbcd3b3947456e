package main

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// desktop uses the desktop, as programs with a message queue do. Wine starts its explorer.exe for that, which stays
// and keeps the program's standard error open. Windows Server Core has no such program.
func desktop() error {
	if h, _, err := windows.NewLazySystemDLL("user32.dll").NewProc("GetDesktopWindow").Call(); h == 0 {
		return fmt.Errorf("GetDesktopWindow: %v", err)
	}
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(list)
	e := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(list, &e); err == nil; err = windows.Process32Next(list, &e) {
		if name := windows.UTF16ToString(e.ExeFile[:]); strings.EqualFold(name, "explorer.exe") {
			return errors.New("explorer.exe runs")
		}
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return err
	}
	return nil
}
