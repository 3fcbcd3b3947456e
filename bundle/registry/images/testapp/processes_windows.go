package main

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"
)

// processNames returns the names of the programs that this one can see.
func processNames() (names []string, err error) {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(list)

	// The size tells Windows which version of the structure this is.
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(list, &entry); err == nil; err = windows.Process32Next(list, &entry) {
		names = append(names, windows.UTF16ToString(entry.ExeFile[:]))
	}
	if errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		err = nil
	}
	return names, err
}
