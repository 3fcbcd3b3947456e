package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// environment looks for variables of Wine's own, in the program's environment and in that of a child.
func environment() error {
	for _, v := range os.Environ() {
		if strings.HasPrefix(strings.ToUpper(v), "WINE") {
			return fmt.Errorf("the environment has %s", v)
		}
	}
	for _, name := range []string{"WINECONFIGDIR", "WINEUSERNAME", "WINEDLLDIR0"} {
		if v, ok := os.LookupEnv(name); ok {
			return fmt.Errorf("%s is %s", name, v)
		}
	}
	out, err := exec.Command("cmd", "/c", "set WINE").CombinedOutput()
	if err == nil || strings.Contains(string(out), "=") {
		return fmt.Errorf("a child has %s, %v", out, err)
	}
	return nil
}

// elevated asks for what an administrator's programs have on Windows Server Core.
func elevated() error {
	if !windows.GetCurrentProcessToken().IsElevated() {
		return errors.New("the token is not elevated")
	}
	sid, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		return err
	}
	if member, err := windows.Token(0).IsMember(sid); err != nil || !member {
		return fmt.Errorf("a member of the administrators: %v, %v", member, err)
	}
	return nil
}

// standardPipe asks what libuv asks of a standard output that is a pipe before it uses it.
func standardPipe() error {
	out := windows.Handle(os.Stdout.Fd())
	if kind, err := windows.GetFileType(out); err != nil || kind != windows.FILE_TYPE_PIPE {
		return fmt.Errorf("the standard output is of type %d, %v, want a pipe", kind, err)
	}
	var mode uint32 // PIPE_READMODE_BYTE, PIPE_WAIT
	if err := windows.SetNamedPipeHandleState(out, &mode, nil, nil); err != nil {
		return fmt.Errorf("SetNamedPipeHandleState: %v", err)
	}
	if err := windows.GetNamedPipeInfo(out, nil, nil, nil, nil); err != nil {
		return fmt.Errorf("GetNamedPipeInfo: %v", err)
	}
	return nil
}

// attributes opens a read-only file to change its attributes, for which Windows asks for no right to its data.
func attributes() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "read-only")
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Chmod(file, 0o444)); err != nil {
		return err
	}
	h, err := open(file, windows.FILE_WRITE_ATTRIBUTES)
	if err != nil {
		return err
	}
	return errors.Join(windows.CloseHandle(h), os.Chmod(file, 0o644), os.RemoveAll(dir))
}

// workingSet asks for the private part of the working set, as hcsshim does.
func workingSet() error {
	const vmCounters, workingSetPrivate = 3, 12 // PROCESSINFOCLASS; place in VM_COUNTERS_EX2
	var counters [14]uintptr
	err := windows.NtQueryInformationProcess(windows.CurrentProcess(), vmCounters, unsafe.Pointer(&counters),
		uint32(unsafe.Sizeof(counters)), nil)
	if err != nil || counters[workingSetPrivate] == 0 {
		return fmt.Errorf("VM_COUNTERS_EX2: %v, %v", counters, err)
	}
	return nil
}

// stacks compares the memory of the program with what it is with more threads. On Windows a stack takes memory as it
// grows.
func stacks() error {
	const more, most = 40, 300 << 10 // seen: 71 KiB; what Wine clears of a stack is 960
	before, err := resident()
	if err != nil {
		return err
	}
	var run sync.WaitGroup
	end := make(chan struct{})
	for range more {
		run.Add(1)
		go func() {
			runtime.LockOSThread()
			run.Done()
			<-end
		}()
	}
	run.Wait()

	after, err := resident()
	close(end)
	if err != nil {
		return err
	}
	if each := (int(after) - int(before)) / more; each > most {
		return fmt.Errorf("a thread takes %d KiB of memory, want at most %d", each>>10, most>>10)
	}
	return nil
}

// resident is the memory that the program has, in bytes.
func resident() (uintptr, error) {
	var m struct {
		size, faults                                           uint32
		peakSet, set, peakPaged, paged, peakNonpaged, nonpaged uintptr
		pagefile, peakPagefile                                 uintptr
	}
	m.size = uint32(unsafe.Sizeof(m))
	get := kernel.NewProc("K32GetProcessMemoryInfo")
	ok, _, err := get.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m))
	if ok == 0 {
		return 0, err
	}
	return m.set, nil
}

// routes looks for the functions by which programs change routes and addresses.
func routes() error {
	dll := windows.NewLazySystemDLL("iphlpapi.dll")
	for _, name := range []string{"CreateIpForwardEntry2", "DeleteIpForwardEntry2", "SetIpForwardEntry2",
		"GetIpForwardEntry2",
		"InitializeIpForwardEntry", "CreateUnicastIpAddressEntry", "DeleteUnicastIpAddressEntry",
		"InitializeUnicastIpAddressEntry", "GetIpInterfaceEntry", "SetIpInterfaceEntry", "InitializeIpInterfaceEntry"} {
		if err := dll.NewProc(name).Find(); err != nil {
			return err
		}
	}
	return nil
}
