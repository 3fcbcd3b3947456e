package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/windows/svc"
)

// service asks whether it is one, as containerd.exe does. It is if the check was asked for by name: then the test has
// started the program as the service manager does. Its child, another check, is none.
func service() error {
	want := slices.Contains(os.Args, "service")
	is, err := svc.IsWindowsService()
	if err != nil || is != want {
		return fmt.Errorf("IsWindowsService %v, %v; want %v", is, err, want)
	}
	if _, ok := os.LookupEnv("PORTHOLE_SERVICE"); ok {
		return fmt.Errorf("the mark of services is in the environment")
	}
	if !want {
		return nil
	}

	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if out, err := exec.Command(exe, "no-service").CombinedOutput(); err != nil {
		return fmt.Errorf("a child: %v: %s", err, out)
	}
	return nil
}
