// Powershell does the three things for which containerd's tests of HostProcess containers call the program of that name, as `powershell /c …`:
// it runs a program whose path begins with a variable of the environment, says where Get-Command finds a program, and compares the
// variable of an `if` that exits.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

var (
	variable = regexp.MustCompile(`\$env:(\w+)`)
	unequal  = regexp.MustCompile(`^if \((\S+) -ne (\S+)\) \{ exit -1 \}$`)
)

func main() {
	command := strings.Join(os.Args[1:], " ")
	command, ok := strings.CutPrefix(command, "/c ")
	if !ok {
		fail("there is no command")
	}
	command = variable.ReplaceAllStringFunc(command, func(name string) string { return os.Getenv(strings.TrimPrefix(name, "$env:")) })
	if m := unequal.FindStringSubmatch(command); m != nil {
		if !strings.EqualFold(m[1], m[2]) {
			os.Exit(-1)
		}
		return
	}

	if name, ok := strings.CutPrefix(command, "Get-Command "); ok {
		path, err := exec.LookPath(name)
		if err != nil {
			fail(err)
		}
		fmt.Println(path)
		return
	}
	cmd := exec.Command(command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fail(err)
	}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, "powershell:", why)
	os.Exit(1)
}
