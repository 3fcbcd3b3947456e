package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// wanted is what a test has run in one container: C:\programs.json.
type wanted struct {
	Mounts   []mount
	Programs []struct {
		Line, User, Input string
		Environment       map[string]string
	}
}

type mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
}

// ran is what came of a program; HResult is not 0 if it could not be started.
type ran struct {
	HResult, Code uint32
	Out, Err      string
}

// programs runs the wanted programs one after the other, and prints what came of each as a line of JSON.
func programs(volume string) {
	var w wanted
	data, err := os.ReadFile(`C:\programs.json`)
	if err == nil {
		err = json.Unmarshal(data, &w)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	system := makeSystemOf("test-3", volume, map[string]any{"MappedDirectories": w.Mounts})

	for i, p := range w.Programs {
		doc := line(p.Line, "CreateStdInPipe", "CreateStdErrPipe")
		doc["Environment"], doc["User"] = p.Environment, p.User
		made, hr := start(system, uintptr(100+i), doc)
		r := ran{HResult: hr}
		if hr == 0 {
			in := os.NewFile(uintptr(made.info.pipes[0]), "input")
			fmt.Fprint(in, p.Input)
			const ended = 0x8037011f // one that reads nothing may have
			if hr := call("HcsModifyProcess", made.handle,
				text(`{"Operation":"CloseHandle","CloseHandle":{"Handle":"StdIn"}}`),
				uintptr(unsafe.Pointer(&record))); hr != ended {
				must("HcsModifyProcess", hr)
			}
			in.Close()
			r.Out, r.Err = <-made.streams[0], <-made.streams[1]
			heard.wait(fmt.Sprintf("0x10000 %d 0x0", 100+i))
			_, status, _ := strings.Cut(properties("HcsGetProcessProperties", made.handle), `"ExitCode":`)
			fmt.Sscan(status, &r.Code)
			must("HcsCloseProcess", call("HcsCloseProcess", made.handle))
		}
		fmt.Println(document(r))
	}
	fmt.Printf("terminate %#x\n", call("HcsTerminateComputeSystem", system, text(""), uintptr(unsafe.Pointer(&record))))
	heard.wait("0x1 1 0x0")
	must("HcsCloseComputeSystem", call("HcsCloseComputeSystem", system))
	for _, f := range []string{"UnprepareLayer", "DeactivateLayer", "DestroyLayer"} {
		must(f, call(f, uintptr(unsafe.Pointer(&info)), text(`C:\layers\scratch`)))
	}
}
