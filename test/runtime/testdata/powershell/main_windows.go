// Powershell does what programs here call the program of that name for, as `powershell /c …`. For containerd's tests of
// HostProcess containers it runs a program whose path begins with a variable of the environment, says where Get-Command
// finds a program, and compares the variable of an `if` that exits. For the sub paths of upstream's kubelet it says
// whether a path is a link and where that leads (pkg/volume/util/subpath, subpath_windows.go of Kubernetes 1.36.3).
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
	link     = regexp.MustCompile(
		`^\$ErrorActionPreference = 'Stop'; \(Get-Item -Force -LiteralPath \$env:linkpath\)\.(LinkType|Target)$`)
	unequal = regexp.MustCompile(`^if \((\S+) -ne (\S+)\) \{ exit -1 \}$`)
)

func main() {
	command := strings.Join(os.Args[1:], " ")
	command, ok := strings.CutPrefix(command, "/c ")
	if !ok {
		fail("there is no command")
	}
	if m := link.FindStringSubmatch(command); m != nil {
		showLink(os.Getenv("linkpath"), m[1])
		return
	}
	command = variable.ReplaceAllStringFunc(command,
		func(name string) string { return os.Getenv(strings.TrimPrefix(name, "$env:")) })
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

// showLink prints the kind or the target of a link, and nothing of what is none.
func showLink(path, property string) {
	st, err := os.Lstat(path)
	if err != nil {
		fail(err)
	}
	if st.Mode()&os.ModeSymlink == 0 {
		return
	}
	if property == "LinkType" {
		fmt.Println("SymbolicLink")
		return
	}
	target, err := os.Readlink(path)
	if err != nil {
		fail(err)
	}
	fmt.Println(target)
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, "powershell:", why)
	os.Exit(1)
}
