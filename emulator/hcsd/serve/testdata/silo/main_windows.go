// Program silo does what runhcs does for a HostProcess container: a job that is a silo, files of the bind filter in
// it, and a program.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/Microsoft/go-winio/pkg/bindfilter"
	"golang.org/x/sys/windows"
)

const (
	createSilo     = 35      // JobObjectCreateSilo
	jobList        = 0x2000D // PROC_THREAD_ATTRIBUTE_JOB_LIST
	currentSilo    = 4       // BINDFLT_FLAG_USE_CURRENT_SILO_MAPPING
	readOnly       = 1       // BINDFLT_FLAG_READ_ONLY_MAPPING
	processIDs     = 3       // JobObjectBasicProcessIdList
	accounting     = 1       // JobObjectBasicAccountingInformation
	memoryUsage    = 28      // JobObjectMemoryUsageInformation
	siloBasic      = 36      // JobObjectSiloBasicInformation
	completionPort = 7       // JobObjectAssociateCompletionPortInformation
	allEnded       = 4       // JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO
)

var (
	bind  = windows.NewLazySystemDLL("bindfltapi.dll").NewProc("BfSetupFilter")
	inJob = windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob")
)

func text(s string) *uint16 {
	p, err := windows.UTF16PtrFromString(s)
	check(err)
	return p
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func setupFilter(job windows.Handle, flags uintptr, root, target string) uint32 {
	hr, _, _ := bind.Call(uintptr(job), flags, uintptr(unsafe.Pointer(text(root))),
		uintptr(unsafe.Pointer(text(target))), 0, 0)
	return uint32(hr)
}

// makeSilo makes a job as hcsshim does (internal/jobobject).
func makeSilo(name string) windows.Handle {
	job, err := windows.CreateJobObject(nil, text(name))
	check(err)
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	check(windows.QueryInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil))
	info.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	check(err)
	var silo [64]byte
	before := windows.QueryInformationJobObject(job, siloBasic, uintptr(unsafe.Pointer(&silo)), 24, nil)
	_, err = windows.SetInformationJobObject(job, createSilo, 0, 0)
	check(err)
	after := windows.QueryInformationJobObject(job, siloBasic, uintptr(unsafe.Pointer(&silo)), 24, nil)
	fmt.Printf("silo %v, then %v\n", before == nil, after == nil)
	return job
}

// start starts a command in a job.
func start(job windows.Handle, command string) (process windows.Handle, out *os.File) {
	r, w, err := os.Pipe()
	check(err)
	defer w.Close()
	check(windows.SetHandleInformation(windows.Handle(w.Fd()), windows.HANDLE_FLAG_INHERIT,
		windows.HANDLE_FLAG_INHERIT))
	list, err := windows.NewProcThreadAttributeList(1)
	check(err)
	defer list.Delete()
	check(list.Update(jobList, unsafe.Pointer(&job), unsafe.Sizeof(job)))
	si := windows.StartupInfoEx{ProcThreadAttributeList: list.List()}
	si.Cb, si.Flags, si.StdOutput, si.StdErr = uint32(unsafe.Sizeof(si)), windows.STARTF_USESTDHANDLES,
		windows.Handle(w.Fd()), windows.Handle(w.Fd())
	var pi windows.ProcessInformation
	check(windows.CreateProcess(nil, text(command), nil, nil, true, windows.EXTENDED_STARTUPINFO_PRESENT, nil, nil,
		&si.StartupInfo, &pi))
	windows.CloseHandle(pi.Thread)
	return pi.Process, r
}

// run runs a command in a job to its end.
func run(job windows.Handle, command string) string {
	process, r := start(job, command)
	defer windows.CloseHandle(process)
	out, err := io.ReadAll(r)
	check(err)
	_, err = windows.WaitForSingleObject(process, 30_000)
	check(err)
	return string(bytes.TrimSpace(out))
}

func main() {
	one, other := makeSilo("JobContainer_one"), makeSilo("JobContainer_other")
	fmt.Printf("rootfs %#x %#x\n", setupFilter(one, currentSilo, `C:\hpc\`, `C:\layers\one`),
		setupFilter(other, currentSilo, `C:\hpc\`, `C:\layers\other`))
	fmt.Printf("mount %#x %#x\n", setupFilter(one, currentSilo|readOnly, `C:\etc\mount`, `C:\data`),
		setupFilter(one, currentSilo, `C:\etc\file.txt`, `C:\data\file.txt`))
	fmt.Printf("absent %#x %#x\n", setupFilter(one, currentSilo, `C:\hpc\x`, `C:\none`),
		setupFilter(one, currentSilo, `C:\none\x`, `C:\data`))
	fmt.Println("one", run(one, `cmd /c type C:\hpc\name.txt`))
	fmt.Println("other", run(other, `cmd /c type C:\HPC\name.txt`))
	fmt.Println("child", run(one, `cmd /c cmd /c C:\windows\silo.exe file C:\etc\mount\file.txt C:\etc\file.txt`))
	fmt.Println("slash", run(one, `cmd /c C:\windows\silo.exe file /etc/file.txt`))
	fmt.Println("written", run(one, `cmd /c echo more> C:\hpc\new.txt&& echo more> C:\etc\mount\new.txt`))
	for _, path := range []string{`C:\hpc\name.txt`, `C:\layers\one\new.txt`, `C:\data\new.txt`} {
		_, err := os.Stat(path)
		fmt.Println("host", path, err == nil)
	}
	statistics(one)
	global()
}

// statistics looks at a job while a program runs in it, and ends the job.
func statistics(job windows.Handle) {
	port, err := windows.CreateIoCompletionPort(windows.InvalidHandle, 0, 0, 0)
	check(err)
	associate := struct{ key, port windows.Handle }{job, port}
	_, err = windows.SetInformationJobObject(job, completionPort, uintptr(unsafe.Pointer(&associate)),
		uint32(unsafe.Sizeof(associate)))
	check(err)
	process, out := start(job, `C:\windows\silo.exe spin`)
	defer windows.CloseHandle(process)
	ready := make([]byte, 1)
	_, err = out.Read(ready)
	check(err)

	var pids struct {
		assigned, listed uint32
		ids              [1]uintptr
	}
	check(windows.QueryInformationJobObject(job, processIDs, uintptr(unsafe.Pointer(&pids)),
		uint32(unsafe.Sizeof(pids)), nil))
	id, err := windows.GetProcessId(process)
	check(err)
	var times struct {
		user, kernel, userPeriod, kernelPeriod int64
		faults, total, active, ended           uint32
	}
	check(windows.QueryInformationJobObject(job, accounting, uintptr(unsafe.Pointer(&times)),
		uint32(unsafe.Sizeof(times)), nil))
	var memory struct{ now, peak uint64 }
	check(windows.QueryInformationJobObject(job, memoryUsage, uintptr(unsafe.Pointer(&memory)),
		uint32(unsafe.Sizeof(memory)), nil))
	fmt.Println("pids", pids.listed == 1 && pids.ids[0] == uintptr(id), "times", times.user+times.kernel > 0, "active",
		times.active, "memory", memory.now > 1<<20, memory.peak >= memory.now)

	limited, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, id)
	check(err)
	defer windows.CloseHandle(limited)
	var in int32
	_, _, _ = inJob.Call(uintptr(limited), uintptr(job), uintptr(unsafe.Pointer(&in))) // in stays 0 if it fails
	fmt.Println("in job", in)

	check(windows.TerminateJobObject(job, 5))
	_, err = windows.WaitForSingleObject(process, 30_000)
	check(err)
	var code uint32
	check(windows.GetExitCodeProcess(process, &code))
	for {
		var message uint32
		var key uintptr
		var o *windows.Overlapped
		check(windows.GetQueuedCompletionStatus(port, &message, &key, &o, 30_000))
		if message == allEnded {
			break
		}
	}
	fmt.Println("terminated", code)
}

// global makes a mapping that all programs see, as containerd does for mounts of its own.
func global() {
	check(bindfilter.ApplyFileBinding(`C:\bound`, `C:\data`, true))
	data, err := os.ReadFile(`C:\bound\file.txt`)
	list, listErr := bindfilter.GetBindMappings(`C:\`)
	fmt.Printf("global %q %v %+v %v\n", data, err, list, listErr)
	check(bindfilter.RemoveFileBinding(`C:\bound`))
	_, err = os.Stat(`C:\bound\file.txt`)
	fmt.Println("removed", err != nil, bindfilter.RemoveFileBinding(`C:\bound`) != nil)
}

func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "file":
		for _, path := range os.Args[2:] {
			data, err := os.ReadFile(path)
			fmt.Print(string(data), err, " ")
		}
	case "spin":
		var kernel, user, created, ended windows.Filetime
		self, _ := syscall.GetCurrentProcess()
		for user.Nanoseconds() < 50e6 { // processor time, not time
			check(windows.GetProcessTimes(windows.Handle(self), &created, &ended, &kernel, &user))
		}
		fmt.Print("x")
		time.Sleep(time.Hour) // Go ends a program whose only goroutine waits for nothing
	}
	os.Exit(0)
}
