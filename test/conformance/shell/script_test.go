package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/interp"
)

// TestScript runs scripts of the forms that upstream's tests of HostProcess containers have.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), []byte("Lorem ipsum\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"DIR": dir, "NODE": strings.ToUpper(host)}
	for text, want := range map[string]struct {
		out  string
		code int
	}{
		`& {if ('` + host + `' -ine "$(hostname)") { exit -1 }}`: {},
		`& {if ('other' -ine "$(hostname)") { exit -1 }}`:        {code: 255},
		`if ($env:NODE -ine "$(hostname)") { throw "is $env:NODE" }
		# a comment
		Write-Output "SUCCESS"`: {out: "SUCCESS\n"},
		`if ($env:NODE -ieq "$(hostname)") {
			throw "is $env:DIR"
		}
		Write-Output never`: {out: "is " + dir + "\n", code: 1},
		`if (-not(Test-Path $env:DIR/text.txt)) {
			throw "no file"
		}
		$c = Get-Content -Path $env:DIR/text.txt
		if ($c -ne "lorem ipsum") { throw "not $c" }
		$d = Get-Content $env:DIR/text.txt
		if ($d -ne "other") { Write-Output $d }`: {out: "Lorem ipsum\n"},
		`if (Test-Path $env:DIR/none) { throw 'there' } ; Write-Host 'a $b'`: {out: "a $b\n"},
		`Set-content -Path ` + dir + `/new.txt -V test`:                      {},
	} {
		var out strings.Builder
		code := 0
		err := runScript(text, &out, func(name string) string { return env[name] })
		var status interp.ExitStatus
		if errors.As(err, &status) {
			code, err = int(status), nil
		}
		if err != nil || out.String() != want.out || code != want.code {
			t.Errorf("%s\n%q, exit code %d, %v; want %q, %d", text, out.String(), code, err, want.out, want.code)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "new.txt")); string(data) != "test\r\n" {
		t.Errorf("Set-Content wrote %q, %v", data, err)
	}

	var out strings.Builder
	if err := runScript("ls "+dir+"/none", &out, os.Getenv); !errors.Is(err, interp.ExitStatus(1)) ||
		!strings.Contains(out.String(), "none") {
		t.Errorf("ls of an absent file: %v, %q", err, out.String())
	}
	for _, text := range []string{"Get-Process", `if (1 -gt 0) { }`, `if (Test-Path x`, `& {`, `Write-Output "x`} {
		if err := runScript(text, &out, os.Getenv); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
