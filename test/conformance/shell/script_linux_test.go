package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/interp"
)

// TestScriptOfMachine runs scripts of the form of upstream's test of graceful node shutdown: facts about Windows, a
// variable of the machine, and a program, whose exit code is the script's.
func TestScriptOfMachine(t *testing.T) {
	program := filepath.Join(t.TempDir(), "shutdown.exe")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\"\ntest \"$1\" != fail\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const set = `$os = Get-WmiObject -Class win32_operatingsystem; [Environment]::SetEnvironmentVariable("INSTALLED", $os.InstallDate, "Machine"); `
	for text, want := range map[string]struct {
		out  string
		code int
	}{
		set + program + " -r -t 60":     {out: "-r -t 60\n"},
		program + " fail":               {out: "fail\n", code: 1},
		program + " fail; " + set:       {out: "fail\n"},
		program + "2 -r":                {out: "fork/exec " + program + "2: no such file or directory\n", code: 1},
		`Write-Output $env:NAME.x`:      {out: "name.x\n"},
		`$a = 'b'; Write-Output "$a.c"`: {out: "b.c\n"},
	} {
		var out strings.Builder
		err := runScript(strings.ReplaceAll(text, ".exe2", "2.exe"), &out, strings.ToLower)
		var status interp.ExitStatus
		if errors.As(err, &status) {
			err = nil
		}
		if got := strings.ReplaceAll(out.String(), "2.exe", ".exe2"); err != nil || got != want.out ||
			int(status) != want.code {
			t.Errorf("%s\n%q, exit code %d, %v; want %q, %d", text, got, status, err, want.out, want.code)
		}
	}

	if got := machine["INSTALLED"]; got != "20260102030405.000000+000" {
		t.Errorf("the variable of the machine is %q", got)
	}
	for _, text := range []string{`[Environment]::SetEnvironmentVariable("A", "b", "User")`,
		`[Environment]::SetEnvironmentVariable("A"`} {
		if err := runScript(text, &strings.Builder{}, strings.ToLower); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
