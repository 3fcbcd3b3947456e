// Client calls vmcompute.dll as hcsshim does, and prints what it is answered. It has layers of Microsoft's kind in
// C:\layers: base with its files, and scratch, the container's own.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var dll = syscall.NewLazyDLL("vmcompute.dll")

// call makes one call and returns its HRESULT.
//
//go:uintptrescapes
func call(function string, args ...uintptr) uint32 {
	r, _, _ := dll.NewProc(function).Call(args...)
	return uint32(r)
}

// kept keeps the texts of calls in memory: the collector does not see them in an uintptr.
var kept []*uint16

func text(s string) uintptr {
	p, err := syscall.UTF16PtrFromString(s)
	if err != nil {
		panic(err)
	}
	kept = append(kept, p)
	return uintptr(unsafe.Pointer(p))
}

// taken is a text that a call has answered.
func taken(p *uint16) string {
	if p == nil {
		return ""
	}
	n := 0
	for ; *(*uint16)(unsafe.Add(unsafe.Pointer(p), 2*n)) != 0; n++ {
	}
	return syscall.UTF16ToString(unsafe.Slice(p, n))
}

// must ends the program for a call that failed.
func must(what string, hr uint32) {
	if hr&0x80000000 != 0 {
		fmt.Printf("%s: %#x\n", what, hr)
		os.Exit(1)
	}
}

type driver struct {
	flavour int
	home    *uint16
}

// info is the first argument of the calls about layers: layers are named by full paths. It is here because memory of a
// function could be moved or freed while only its address is kept.
var (
	home uint16
	info = driver{1, &home}
)

type descriptor struct {
	id    [16]byte
	flags uint32
	path  *uint16
}

// notices are what callbacks were told.
type notices struct {
	mu   sync.Mutex
	seen []string
	more chan struct{}
}

var heard = notices{more: make(chan struct{}, 100)}

var callback = syscall.NewCallback(func(kind, context, status uintptr, data *uint16) uintptr {
	heard.mu.Lock()
	heard.seen = append(heard.seen, fmt.Sprintf("%#x %d %#x", uint32(kind), context, uint32(status)))
	heard.mu.Unlock()
	heard.more <- struct{}{}
	return 0
})

// wait returns when a callback was told so.
func (n *notices) wait(want string) {
	limit := time.After(time.Minute)
	for {
		n.mu.Lock()
		all := strings.Join(n.seen, "; ")
		n.mu.Unlock()
		if strings.Contains("; "+all+"; ", "; "+want+"; ") {
			fmt.Println("told", want)
			return
		}
		select {
		case <-n.more:
		case <-limit:
			fmt.Printf("never told %q, but: %s\n", want, all)
			os.Exit(1)
		}
	}
}

// makeLayers does what the snapshotter does: a base layer, a disk for the container, and its C:.
func makeLayers(driverInfo uintptr) (volume string) {
	must("ProcessBaseImage", call("ProcessBaseImage", text(`C:\layers\base`)))
	disk, err := os.ReadFile(`C:\layers\base\blank.vhdx`)
	if err == nil {
		err = os.WriteFile(`C:\layers\scratch\sandbox.vhdx`, disk, 0o644)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	scratch := text(`C:\layers\scratch`)
	path, _ := syscall.UTF16PtrFromString(`C:\layers\base`)
	parent := descriptor{path: path}
	fmt.Printf("early %#x\n", call("PrepareLayer", driverInfo, scratch, uintptr(unsafe.Pointer(&parent)), 1))
	must("ActivateLayer", call("ActivateLayer", driverInfo, scratch))
	must("PrepareLayer", call("PrepareLayer", driverInfo, scratch, uintptr(unsafe.Pointer(&parent)), 1))

	length := uintptr(0)
	must("GetLayerMountPath", call("GetLayerMountPath", driverInfo, scratch, uintptr(unsafe.Pointer(&length)), 0))
	buffer := make([]uint16, length)
	must("GetLayerMountPath",
		call("GetLayerMountPath", driverInfo, scratch, uintptr(unsafe.Pointer(&length)),
			uintptr(unsafe.Pointer(&buffer[0]))))
	return syscall.UTF16ToString(buffer)
}

func document(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// makeSystem makes a system on the volume; its callback has the number 1.
func makeSystem(id, volume string) (system uintptr) {
	return makeSystemOf(id, volume, map[string]any{
		"Memory": map[string]int{"SizeInMB": 512}, "Processor": map[string]int{"Maximum": 5000},
		"MappedDirectories": []any{map[string]string{"HostPath": `C:\shared`, "ContainerPath": "D:"}},
		"AssignedDevices":   []any{map[string]string{"InterfaceClassGuid": "5B45201D-F2F2-4F3B-85BB-30FF1F953599"}},
		"RegistryChanges": map[string]any{
			"AddValues": []any{map[string]any{"Key": map[string]string{"Hive": "System",
				"Name": `ControlSet001\Control`},
				"Name": "WaitToKillServiceTimeout", "StringValue": "2147483647", "Type": "String"}}},
	})
}

// makeSystemOf is makeSystem with a container that has this beside its name and its volume.
func makeSystemOf(id, volume string, container map[string]any) (system uintptr) {
	var record *uint16
	container["GuestOs"], container["Storage"] = map[string]string{"HostName": "pod-a"}, map[string]any{"Path": volume +
		`\`}
	doc := map[string]any{"Owner": "test", "SchemaVersion": map[string]int{"Major": 2, "Minor": 1},
		"ShouldTerminateOnLastHandleClosed": true,
		"Container":                         container}
	must("HcsCreateComputeSystem",
		call("HcsCreateComputeSystem", text(id), text(document(doc)), 0, uintptr(unsafe.Pointer(&system)),
			uintptr(unsafe.Pointer(&record))))
	var handle uintptr
	must("HcsRegisterComputeSystemCallback",
		call("HcsRegisterComputeSystemCallback", system, callback, 1, uintptr(unsafe.Pointer(&handle))))
	must("HcsStartComputeSystem", call("HcsStartComputeSystem", system, text(""), uintptr(unsafe.Pointer(&record))))
	return system
}

type information struct {
	pid, reserved uint32
	pipes         [3]syscall.Handle
}

// process is one that was started; out is its output.
type process struct {
	handle uintptr
	info   information
	first  chan string // the first line of it
	out    chan string
	// streams are its output and its errors, apart.
	streams [2]chan string
}

// start starts a program; its callback has the number n.
func start(system uintptr, n uintptr, doc map[string]any) (*process, uint32) {
	p := &process{first: make(chan string, 2), out: make(chan string, 2),
		streams: [2]chan string{make(chan string, 1), make(chan string, 1)}}
	var record *uint16
	hr := call("HcsCreateProcess", system, text(document(doc)), uintptr(unsafe.Pointer(&p.info)),
		uintptr(unsafe.Pointer(&p.handle)), uintptr(unsafe.Pointer(&record)))
	if hr != 0 {
		return nil, hr
	}

	var handle uintptr
	must("HcsRegisterProcessCallback",
		call("HcsRegisterProcessCallback", p.handle, callback, n, uintptr(unsafe.Pointer(&handle))))

	for i, pipe := range p.info.pipes[1:] {
		if pipe == 0 || doc["EmulateConsole"] != nil {
			continue // a console has no lines
		}
		go func() {
			r := bufio.NewReader(os.NewFile(uintptr(pipe), "output"))
			first, err := r.ReadString('\n')
			p.first <- first
			if err == nil {
				var rest []byte
				rest, err = io.ReadAll(r)
				first += string(rest)
			}
			if err != nil && err != io.EOF {
				first += err.Error()
			}
			p.out <- first
			p.streams[i] <- first
		}()
	}
	return p, 0
}

// answer and record are where properties gets texts: memory that does not move.
var answer, record *uint16

// properties are what the last function answers.
func properties(function string, handle uintptr, query ...string) string {
	answer, record = nil, nil
	args := []uintptr{handle}
	for _, q := range query {
		args = append(args, text(q))
	}
	must(function, call(function, append(args, uintptr(unsafe.Pointer(&answer)), uintptr(unsafe.Pointer(&record)))...))
	return taken(answer)
}

func line(command string, more ...string) map[string]any {
	doc := map[string]any{"CommandLine": command, "WorkingDirectory": `C:\`, "CreateStdOutPipe": true,
		"Environment": map[string]string{"COLOUR": "blue green"}}
	for _, m := range more {
		doc[m] = true
	}
	return doc
}

func main() {
	driverInfo := uintptr(unsafe.Pointer(&info))
	volume := makeLayers(driverInfo)
	fmt.Println("volume", volume)
	if len(os.Args) > 1 && os.Args[1] == "programs" {
		programs(volume)
		return
	}
	if len(os.Args) > 1 {
		hold(volume)
		return
	}
	system := makeSystem("test-1", volume)
	heard.wait("0x3 1 0x0")

	p, hr := start(system, 2,
		line(`cmd /c "type C:\hello.txt & type D:\colour.txt & echo %COLOUR% %COMPUTERNAME% %USERNAME% & exit 300"`))
	must("HcsCreateProcess", hr)
	fmt.Printf("output %q\n", <-p.out)
	heard.wait("0x10000 2 0x0")
	fmt.Println("status", strings.ReplaceAll(properties("HcsGetProcessProperties", p.handle), fmt.Sprint(p.info.pid),
		"PID"))
	p, hr = start(system, 10, line(`cmd /c "if exist C:\Windows\System32\HostDriverStore\FileRepository echo there"`))
	must("HcsCreateProcess", hr)
	fmt.Printf("drivers %q\n", <-p.out)
	_, hr = start(system, 3, line(`C:\absent.exe`))
	fmt.Printf("absent %#x\n", hr)
	bad := line("cmd")
	bad["WorkingDirectory"] = `C:\nowhere`
	_, hr = start(system, 3, bad)
	fmt.Printf("folder %#x\n", hr)

	life(system)
	var record *uint16
	fmt.Printf("again %#x\n",
		call("HcsCreateComputeSystem", text("test-1"), text("{}"), 0, uintptr(unsafe.Pointer(new(uintptr))),
			uintptr(unsafe.Pointer(&record))))
	fmt.Printf("busy %#x\n", call("UnprepareLayer", driverInfo, text(`C:\layers\scratch`)))
	fmt.Printf("terminate %#x\n", call("HcsTerminateComputeSystem", system, text(""), uintptr(unsafe.Pointer(&record))))
	heard.wait("0x1 1 0x0")
	fmt.Printf("terminate again %#x\n",
		call("HcsTerminateComputeSystem", system, text(""), uintptr(unsafe.Pointer(&record))))
	must("HcsCloseComputeSystem", call("HcsCloseComputeSystem", system))
	fmt.Printf("gone %#x\n", call("HcsOpenComputeSystem", text("test-1"), uintptr(unsafe.Pointer(&system)),
		uintptr(unsafe.Pointer(&record))))
	for _, f := range []string{"UnprepareLayer", "DeactivateLayer", "DestroyLayer"} {
		must(f, call(f, driverInfo, text(`C:\layers\scratch`)))
	}
}

// life has programs that are ended in the ways there are.
func life(system uintptr) {
	var record *uint16
	p, hr := start(system, 4, line(`C:\app.exe copy`, "CreateStdInPipe"))
	must("HcsCreateProcess", hr)
	in := os.NewFile(uintptr(p.info.pipes[0]), "input")
	fmt.Fprint(in, "one\ntwo\n")
	must("HcsModifyProcess", call("HcsModifyProcess", p.handle,
		text(`{"Operation":"CloseHandle","CloseHandle":{"Handle":"StdIn"}}`), uintptr(unsafe.Pointer(&record))))
	in.Close()
	fmt.Printf("echo %q\n", <-p.out)
	heard.wait("0x10000 4 0x0")

	p, hr = start(system, 5, line("cmd", "CreateStdInPipe"))
	must("HcsCreateProcess", hr)
	all := properties("HcsGetComputeSystemProperties", system, `{"PropertyTypes":["Statistics","ProcessList"]}`)
	fmt.Println("listed", strings.Contains(all, fmt.Sprintf(`"ProcessId":%d,"ImageName":"cmd.exe"`, p.info.pid)))
	var seen struct {
		State      string
		Statistics struct {
			Memory    struct{ MemoryUsageCommitBytes uint64 }
			Processor struct{ TotalRuntime100ns uint64 }
		}
	}
	fmt.Println("statistics", json.Unmarshal([]byte(all), &seen), seen.State,
		seen.Statistics.Memory.MemoryUsageCommitBytes > 1<<20, seen.Statistics.Processor.TotalRuntime100ns > 0)
	must("HcsTerminateProcess", call("HcsTerminateProcess", p.handle, uintptr(unsafe.Pointer(&record))))
	heard.wait("0x10000 5 0x0")
	fmt.Println("killed", strings.Contains(properties("HcsGetProcessProperties", p.handle),
		`"Exited":true,"ExitCode":1067,`))

	consoles(system)

	p, hr = start(system, 6, line(`C:\app.exe`))
	must("HcsCreateProcess", hr)
	<-p.first
	must("HcsSignalProcess", call("HcsSignalProcess", p.handle, text(`{"Signal":"CtrlShutdown"}`),
		uintptr(unsafe.Pointer(&record))))
	fmt.Printf("handled %q\n", <-p.out)
	heard.wait("0x10000 6 0x0")
	fmt.Println("stopped", strings.Contains(properties("HcsGetProcessProperties", p.handle),
		`"Exited":true,"ExitCode":3221225786,`))

	p, hr = start(system, 9, line(`C:\app.exe plain`))
	must("HcsCreateProcess", hr)
	<-p.first
	must("HcsSignalProcess", call("HcsSignalProcess", p.handle, text(`{"Signal":"CtrlShutdown"}`),
		uintptr(unsafe.Pointer(&record))))
	heard.wait("0x10000 9 0x0")
	fmt.Println("unhandled", strings.Contains(properties("HcsGetProcessProperties", p.handle),
		`"Exited":true,"ExitCode":3221225786,`))
}

// screen is what has come from a console so far.
type screen struct {
	out  *os.File
	text string
}

// until reads until the console has shown the text, and reports whether it did.
func (s *screen) until(want string) bool {
	buffer := make([]byte, 4096)
	for !strings.Contains(s.text, want) {
		n, err := s.out.Read(buffer)
		s.text += string(buffer[:n])
		if err != nil {
			fmt.Printf("the console ended: %v %q\n", err, s.text)
			return false
		}
	}
	return true
}

// consoles has programs on consoles: one whose size is changed, one that an event ends, and one whose user goes away.
func consoles(system uintptr) {
	var record *uint16
	begin := func(n uintptr, arguments string, size ...int) (*process, *os.File, *screen) {
		doc := line(`C:\app.exe `+arguments, "CreateStdInPipe", "EmulateConsole")
		doc["ConsoleSize"] = size
		p, hr := start(system, n, doc)
		must("HcsCreateProcess on a console", hr)
		return p, os.NewFile(uintptr(p.info.pipes[0]),
			"input"), &screen{out: os.NewFile(uintptr(p.info.pipes[1]), "output")}
	}

	p, in, s := begin(20, "console", 20, 60)
	fmt.Println("console", s.until("columns=60,lines=20,"), p.info.pipes[2] == 0)
	must("HcsModifyProcess", call("HcsModifyProcess", p.handle,
		text(`{"Operation":"ConsoleSize","ConsoleSize":{"Height":31,"Width":101}}`), uintptr(unsafe.Pointer(&record))))
	fmt.Println("resized", s.until("columns=101,lines=31,"))
	fmt.Printf("no size %#x\n",
		call("HcsModifyProcess", p.handle, text(`{"Operation":"ConsoleSize","ConsoleSize":{"Width":101}}`),
			uintptr(unsafe.Pointer(&record))))
	fmt.Fprint(in, "300\r")
	heard.wait("0x10000 20 0x0")
	fmt.Println("typed", strings.Contains(properties("HcsGetProcessProperties", p.handle),
		`"Exited":true,"ExitCode":300,`))

	p, in, s = begin(21, "console deaf")
	fmt.Println("default", s.until("columns=80,lines=25,"))
	fmt.Fprint(in, "\x03")
	fmt.Println("interrupted", s.until("interrupted"))
	runtime.KeepAlive(in)
	heard.wait("0x10000 21 0x0")

	p, in, s = begin(22, "console")
	s.until("columns=80,lines=25,")
	in.Close()
	heard.wait("0x10000 22 0x0")
	// it sees the end of its input first, or that of its console
	status := properties("HcsGetProcessProperties", p.handle)
	fmt.Println("left", strings.Contains(status, `"ExitCode":5,`) || strings.Contains(status, `"ExitCode":7,`), status)
}

// hold has a program that goes on while hcsd is started again, and what a client does then: it opens everything once
// more.
func hold(volume string) {
	var record *uint16
	system := makeSystem("test-2", volume)
	_, hr := start(system, 3, line(`C:\absent.exe`))
	fmt.Printf("absent %#x\n", hr)
	p, hr := start(system, 2, line(`C:\app.exe`))
	must("HcsCreateProcess", hr)
	fmt.Printf("holding %q\n", <-p.first)
	heard.wait("0x1000000 1 0x0")

	again, process := new(uintptr), new(uintptr)
	must("HcsOpenComputeSystem",
		call("HcsOpenComputeSystem", text("test-2"), uintptr(unsafe.Pointer(again)), uintptr(unsafe.Pointer(&record))))
	fmt.Println("properties",
		strings.Contains(properties("HcsGetComputeSystemProperties", *again, "{}"), `"State":"Running"`))
	more, hr := start(*again, 9, line("cmd /c echo another"))
	must("HcsCreateProcess", hr)
	fmt.Printf("more %q\n", <-more.out)
	must("HcsOpenProcess", call("HcsOpenProcess", *again, uintptr(p.info.pid), uintptr(unsafe.Pointer(process)),
		uintptr(unsafe.Pointer(&record))))
	var handle uintptr
	must("HcsRegisterProcessCallback",
		call("HcsRegisterProcessCallback", *process, callback, 7, uintptr(unsafe.Pointer(&handle))))
	must("HcsRegisterComputeSystemCallback",
		call("HcsRegisterComputeSystemCallback", *again, callback, 8, uintptr(unsafe.Pointer(&handle))))
	must("HcsSignalProcess", call("HcsSignalProcess", *process, text(`{"Signal":"CtrlShutdown"}`),
		uintptr(unsafe.Pointer(&record))))
	heard.wait("0x10000 7 0x0")
	fmt.Printf("handled %q\n", <-p.out)
	fmt.Println("stopped", strings.Contains(properties("HcsGetProcessProperties", *process),
		`"Exited":true,"ExitCode":3221225786,`))
	fmt.Printf("terminate %#x\n", call("HcsTerminateComputeSystem", *again, text(""), uintptr(unsafe.Pointer(&record))))
	heard.wait("0x1 8 0x0")
}
