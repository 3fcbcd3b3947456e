// Command unit stands for the parts of systemd that upstream's suite of node tests starts: systemd-run, systemctl and
// sudo, by the name under which it is started. It runs one service per name, whose files are in /run/units of the
// machine in namespaces in which the suite runs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// folder has a file NAME.service for each service, and NAME.service.pid while it runs.
const folder = "/run/units"

// service is one that systemd-run made.
// Log is the file that its output is appended to.
type service struct {
	Command []string
	Log     string
}

func main() {
	if err := run(filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// The name decides, as all three are links to this program.
func run(name string, args []string) error {
	switch name {
	case "sudo":
		path, err := exec.LookPath(args[0])
		if err != nil {
			return err
		}
		return syscall.Exec(path, args, os.Environ())
	case "systemd-run":
		return transient(args)
	case "systemctl":
		return control(args)
	}
	return errors.New("start it as sudo, systemd-run or systemctl")
}

// transient makes a service of a command line, as systemd-run does, and starts it.
func transient(args []string) error {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("systemd 252 (252)") // from 240 on the suite asks for a log that is appended to
		return nil
	}
	// Options that a service of ours has no use for are passed over.
	s, name := service{Log: os.DevNull}, ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flag := args[0]
		args = args[1:]
		if flag == "-p" {
			if file, is := strings.CutPrefix(args[0], "StandardError=append:"); is {
				s.Log = file
			}
			args = args[1:]
		}
		// Other options have their value in the same word.
		if unit, is := strings.CutPrefix(flag, "--unit="); is {
			name = full(unit)
		}
	}

	s.Command = args
	if name == "" || len(args) == 0 {
		return errors.New("need --unit and a command")
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(at(name), text, 0o644)); err != nil {
		return err
	}
	return start(name)
}

// control is systemctl.
// Verbs that the suite does not use are errors.
func control(args []string) error {
	verb, args := args[0], args[1:]
	switch verb {
	case "list-units":
		return list(args)
	case "start":
		return start(full(args[0]))
	case "stop", "kill":
		return stop(full(args[0]))
	case "restart":
		if err := stop(full(args[0])); err != nil {
			return err
		}
		return start(full(args[0]))
	case "reset-failed":
		return nil
	}
	return fmt.Errorf("%s is not known here", verb)
}

// full adds the ending if it is missing; at is the path of a service's file.
func full(name string) string { return strings.TrimSuffix(name, ".service") + ".service" }

func at(name string) string { return filepath.Join(folder, name) }

// list prints the services whose names fit a pattern, with --state=running only those that run.
func list(args []string) error {
	files, err := filepath.Glob(at(args[0]))
	for _, f := range files {
		state := "failed"
		if pid, err := pidOf(filepath.Base(f)); err == nil && pid != 0 {
			state = "running"
		}
		if filepath.Ext(f) == ".service" && (state == "running" || len(args) == 1) {
			fmt.Printf("  %s loaded active %s\n", filepath.Base(f), state)
		}
	}
	return err
}

// pidOf returns the process of a service; 0: it has ended, or was never started.
func pidOf(name string) (int, error) {
	text, err := os.ReadFile(at(name) + ".pid")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	if err != nil || strings.HasPrefix(state, "Z") { // nobody may wait for it: the machine's first process is ginkgo
		return 0, nil
	}
	return pid, nil
}

// start does nothing if the service runs. The service outlives this program, in a session of its
// own.
func start(name string) error {
	if pid, err := pidOf(name); err != nil || pid != 0 {
		return err
	}
	var s service
	text, err := os.ReadFile(at(name))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return fmt.Errorf("unit %s: %w", name, err)
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}

	c := exec.Command(s.Command[0], s.Command[1:]...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return fmt.Errorf("unit %s: %w", name, err)
	}
	return os.WriteFile(at(name)+".pid", []byte(strconv.Itoa(c.Process.Pid)), 0o644)
}

// stopTime is how long a service may take to end: systemd's default (DefaultTimeoutStopSec).
const stopTime = 90 * time.Second

// stop sends the process of a service SIGTERM, and SIGKILL after stopTime, and waits for its end.
func stop(name string) error {
	pid, err := pidOf(name)
	if err != nil || pid == 0 {
		return err
	}
	sig := syscall.SIGTERM
	for end := time.Now().Add(stopTime); pid != 0; pid, err = pidOf(name) {
		if time.Now().After(end) {
			sig = syscall.SIGKILL
		}
		if e := syscall.Kill(pid, sig); e != nil && !errors.Is(e, syscall.ESRCH) { // it may end this moment
			return e
		}
		time.Sleep(50 * time.Millisecond)
	}
	if e := os.Remove(at(name) + ".pid"); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
