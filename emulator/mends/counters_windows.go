package main

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Values of pdh.h and pdhmsg.h.
const (
	pdhDouble   = 0x200
	pdhNoObject = 0xc0000bb8
)

// counters reads performance counters of the machine, as upstream's kubelet does.
func counters() error {
	dll := windows.NewLazySystemDLL("pdh.dll")
	call := func(name string, args ...uintptr) uint32 {
		r, _, _ := dll.NewProc(name).Call(args...)
		return uint32(r)
	}
	var query, counter uintptr
	if r := call("PdhOpenQueryW", 0, 0, uintptr(unsafe.Pointer(&query))); r != 0 {
		return fmt.Errorf("PdhOpenQueryW: %#x", r)
	}
	defer call("PdhCloseQuery", query)
	if r := call("PdhAddEnglishCounterW", query, uintptr(unsafe.Pointer(windows.StringToUTF16Ptr(`\Nothing\At all`))),
		0, uintptr(unsafe.Pointer(&counter))); r != pdhNoObject {
		return fmt.Errorf("an object that is not there: %#x", r)
	}

	for path, limit := range map[string]float64{`\Processor(_Total)\% Processor Time`: 100.001,
		`\Process(_Total)\Working Set - Private`: 1e15, `\Memory\Committed Bytes`: 1e15} {
		if r := call("PdhAddEnglishCounterW", query, uintptr(unsafe.Pointer(windows.StringToUTF16Ptr(path))), 0,
			uintptr(unsafe.Pointer(&counter))); r != 0 {
			return fmt.Errorf("%s: %#x", path, r)
		}
		var value struct {
			status, _ uint32
			double    float64
		}
		// The share of a processor's time needs two collections with time between them, in which the processors do
		// something.
		for range 100 {
			if r := call("PdhCollectQueryData", query); r != 0 {
				return fmt.Errorf("PdhCollectQueryData: %#x", r)
			}
			if r := call("PdhGetFormattedCounterValue", counter, pdhDouble, 0,
				uintptr(unsafe.Pointer(&value))); r == 0 && value.double > 0 {
				break
			}
			for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; { // busy
			}
		}
		if value.status != 0 || value.double <= 0 || value.double > limit {
			return fmt.Errorf("%s is %v, status %#x", path, value.double, value.status)
		}
	}
	return nil
}
