package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

const filePipeLocalInformation = 24 // FILE_INFORMATION_CLASS of ntifs.h

var peekNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")

// describeHandles prints, for each standard handle, the answers to what libuv asks before it uses a pipe
// (src/win/pipe.c). It reads one byte of the input first, and also prints how many more wait to be read.
func describeHandles() {
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		fmt.Println(err)
	}
	for i, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		h := windows.Handle(f.Fd())
		kind, err := windows.GetFileType(h)
		fmt.Println(i, "type", kind, err)
		var first [2]byte
		var n, waiting uint32
		ok, _, _ := peekNamedPipe.Call(uintptr(h), uintptr(unsafe.Pointer(&first)), 2, uintptr(unsafe.Pointer(&n)),
			uintptr(unsafe.Pointer(&waiting)), 0)
		fmt.Println(i, "peek", ok, string(first[:n]), waiting)

		wait, message := uint32(windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT), uint32(windows.PIPE_READMODE_MESSAGE)
		fmt.Println(i, "bytes", windows.SetNamedPipeHandleState(h, &wait, nil, nil))
		fmt.Println(i, "messages", windows.SetNamedPipeHandleState(h, &message, nil, nil) != nil)
		var flags, out, in, most uint32
		fmt.Println(i, "info", windows.GetNamedPipeInfo(h, &flags, &out, &in, &most), flags, out > 0, in > 0, most)

		var io windows.IO_STATUS_BLOCK
		var local struct {
			Type, Configuration, Most, Instances, InQuota, Available, OutQuota, Room, State, End uint32
		}
		into := (*byte)(unsafe.Pointer(&local))
		err = windows.NtQueryInformationFile(h, &io, into, uint32(unsafe.Sizeof(local)), filePipeLocalInformation)
		fmt.Println(i, "local", err, local.Configuration, local.Available, local.State, local.Room == local.OutQuota)
		err = windows.NtQueryInformationFile(h, &io, into, 4, filePipeLocalInformation)
		fmt.Println(i, "short", err != nil)
	}
}
