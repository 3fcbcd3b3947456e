package main

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// sleepCount is how often the check sleeps one time after another.
const sleepCount = 5000

const (
	// CREATE_WAITABLE_TIMER_HIGH_RESOLUTION
	highResolution = 2
	// TIMER_QUERY_STATE and TIMER_MODIFY_STATE: runtime/os_windows.go, createHighResTimer
	ofRuntime = windows.SYNCHRONIZE | 0x1 | 0x2
	ofOthers  = windows.STANDARD_RIGHTS_REQUIRED | windows.SYNCHRONIZE | 0x3 // TIMER_ALL_ACCESS
)

// kernel is used by the other checks too.
var (
	kernel      = windows.NewLazySystemDLL("kernel32.dll")
	createTimer = kernel.NewProc("CreateWaitableTimerExW")
	setTimer    = kernel.NewProc("SetWaitableTimer")
	waitFor     = kernel.NewProc("WaitForSingleObject")
	counter     = kernel.NewProc("QueryPerformanceCounter")
	frequency   = kernel.NewProc("QueryPerformanceFrequency")
)

// sleep waits for a timer as Go's runtime does.
func sleep(timer uintptr, d time.Duration) error {
	due := -int64(d / 100)
	if ok, _, err := setTimer.Call(timer, uintptr(unsafe.Pointer(&due)), 0, 0, 0, 0); ok == 0 {
		return err
	}
	if result, _, err := waitFor.Call(timer, windows.INFINITE); result != windows.WAIT_OBJECT_0 {
		return fmt.Errorf("waiting: %d, %v", result, err)
	}
	return nil
}

// counted returns the time by the performance counter, for which Wine reads Linux' clock at each call. Go's time.Now is
// too coarse: it reads a page of memory that wineserver updates every 16 ms, and later while wineserver is busy. By it
// a sleep of 30 ms once took 22 ms.
func counted() time.Duration {
	var count, perSecond int64
	_, _, _ = frequency.Call(uintptr(unsafe.Pointer(&perSecond))) // neither can fail (profileapi.h)
	_, _, _ = counter.Call(uintptr(unsafe.Pointer(&count)))
	return time.Duration(float64(count) / float64(perSecond) * float64(time.Second))
}

// sleeps sleeps by a timer of the kind that the runtime has, and by another, which is set in one thread and waited for
// in another.
func sleeps() error {
	mine, _, err := createTimer.Call(0, 0, highResolution, ofRuntime)
	if mine == 0 {
		return err
	}
	begin := counted()
	if err := sleep(mine, 30*time.Millisecond); err != nil {
		return err
	}
	// The sleep is measured by another clock of Linux than the one that it ends by, which Linux may let go faster by a
	// tenth (adjtimex(2)).
	if took := counted() - begin; took < 27*time.Millisecond {
		return fmt.Errorf("30 ms took %v", took)
	}
	for range sleepCount {
		if err := sleep(mine, 100*time.Nanosecond); err != nil {
			return err
		}
	}
	if ok, _, err := kernel.NewProc("CloseHandle").Call(mine); ok == 0 {
		return err
	}

	other, _, err := createTimer.Call(0, 0, highResolution, ofOthers) // it has the number of the one that was closed
	if other == 0 {
		return err
	}
	due := -int64(30 * time.Millisecond / 100)
	if ok, _, err := setTimer.Call(other, uintptr(unsafe.Pointer(&due)), 0, 0, 0, 0); ok == 0 {
		return err
	}
	waited := make(chan uintptr)
	go func() {
		result, _, _ := waitFor.Call(other, 5000)
		waited <- result
	}()
	if result := <-waited; result != windows.WAIT_OBJECT_0 {
		return fmt.Errorf("a timer that another thread has set: %d", result)
	}
	return nil
}
