package guest

import (
	"path/filepath"
	"strings"
)

// Rooted names the program from the root of C: if it is named from a root: Wine's loader would take /bin/sh for a Linux
// program, on Windows it is C:\bin\sh.exe. The loader does not add .exe either. The arguments stay as they are.
func Rooted(command []string) []string {
	if len(command) == 0 || !strings.HasPrefix(command[0], "/") {
		return command
	}
	program := `C:` + strings.ReplaceAll(command[0], "/", `\`)
	if filepath.Ext(command[0]) == "" {
		program += ".exe"
	}
	return append([]string{program}, command[1:]...)
}

// Launcher is our program of that name, see emulator/dll/launch.c.
const Launcher = `C:\windows\system32\porthole-launch.exe`

// Launched is what Wine's loader is to start for a container's command: the launcher, which gives the program its command line as
// it is, and keeps its exit code. program is where the program was found; the launcher looks for one that was not, because it may be
// in a mount. A program that is named from a root without a drive is always named to it, because Wine would look for a Linux path.
// The launcher costs a process and 0.08 s (observed with Wine 8.0, 2026-11), so it starts no exec.
func Launched(command []string, program string) []string {
	if len(command) == 0 {
		return command
	}
	if named := Rooted(command); named[0] != command[0] {
		program = named[0]
	}
	return append([]string{Launcher, program}, command...)
}

// ProgramCandidates are the files, below C:, that a program name may mean: as given and with .exe, in the working
// folder and on the path, as CreateProcess looks for them.
func ProgramCandidates(program, dir, path string) []string {
	names := []string{program}
	if !strings.Contains(filepath.Base(strings.ReplaceAll(program, `\`, "/")), ".") {
		names = []string{program + ".exe", program}
	}
	if strings.ContainsAny(program, `\/:`) {
		if !strings.ContainsAny(program[:1], `\/`) && !strings.Contains(program, ":") {
			for i := range names {
				names[i] = dir + `\` + names[i]
			}
		}
		return names
	}
	var out []string
	for _, d := range append([]string{dir, `C:\windows\system32`, `C:\windows`}, strings.Split(path, ";")...) {
		if strings.TrimSpace(d) == "" {
			continue
		}
		for _, n := range names {
			out = append(out, strings.TrimRight(d, `\/`)+`\`+n)
		}
	}
	return out
}
