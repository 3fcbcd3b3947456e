package runtimetest

import (
	"fmt"
	"strconv"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// moment is how long a program runs that ends at once.
const moment = 10 * time.Millisecond

// TestProgram behaves as the program of the test image: "sleep" runs until it is stopped; "sleep SECONDS" runs for
// that time, and ends with 143 (SIGTERM) if it is stopped before; "exit CODE" ends with this code. Everything else
// ends with 0 at once.
func TestProgram(c *cri.ContainerConfig) Process {
	words := append(append([]string{}, c.GetCommand()...), c.GetArgs()...)
	// number is the second word; 0 if there is none or it is no number.
	number := func() float64 {
		if len(words) < 2 {
			return 0
		}
		n, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return 0
		}
		return n
	}

	if len(words) == 0 {
		return Process{Runs: moment, ExitCode: 2}
	}
	switch words[0] {
	case "sleep":
		if len(words) == 1 {
			return Process{Stops: moment}
		}
		return Process{Runs: moment + time.Duration(number()*float64(time.Second)), Stops: moment, StopCode: 143}
	case "exit":
		return Process{Runs: moment, ExitCode: int32(number())}
	case "nothing":
		return Process{StartError: "exec: \"nothing\": executable file not found in $PATH"}
	}
	return Process{Runs: moment}
}

// TestExec runs a command of the same program in a container. The first word of cmd is the program's path.
func TestExec(_ *cri.ContainerConfig, cmd []string) (exitCode int32, output string, took time.Duration) {
	if len(cmd) == 0 {
		return 2, "", moment
	}
	p := TestProgram(&cri.ContainerConfig{Args: cmd[1:]})
	if p.Runs == 0 { // it would run for ever
		return p.StopCode, "", 1 << 40 * time.Nanosecond
	}
	return p.ExitCode, fmt.Sprintln(cmd), p.Runs
}
