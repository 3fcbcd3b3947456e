// Command hcnnetwork makes an HCN network from the settings in its first argument.
package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

func main() {
	settings, err := syscall.UTF16PtrFromString(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var id [16]byte
	id[0], id[15] = 1, 1
	var handle, record uintptr
	result, _, _ := syscall.NewLazyDLL("computenetwork.dll").NewProc("HcnCreateNetwork").Call(
		uintptr(unsafe.Pointer(&id)), uintptr(unsafe.Pointer(settings)), uintptr(unsafe.Pointer(&handle)),
		uintptr(unsafe.Pointer(&record)))
	if result != 0 {
		fmt.Fprintf(os.Stderr, "HcnCreateNetwork: %#x\n", result)
		os.Exit(1)
	}
}
