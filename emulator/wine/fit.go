package wine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Files of our DLLs' folder: the DLL that mends, and the programs that ask about it.
const (
	mendDLL      = "bcryptprimitives.dll"
	mended       = "probe/mended.exe" // which mends fit
	mendsProgram = "probe/mends.exe"  // does what they are for
)

// Unfit is a function that a mend cannot replace in this Wine, because its machine code is unknown or it is missing.
type Unfit struct {
	Mend     string // that it is part of, as Mends names it; "file": several
	Function string
	What     string // is otherwise than on Windows, then
}

// UnfitError says that this Wine is not one that can be mended. A command that starts hosts ends by it before it
// makes anything.
type UnfitError struct {
	Version string // as Wine says it
	Loader  string
	Unfit   []Unfit
}

// cure is what helps whoever has a Wine that hosts do not run with.
const cure = "take the archive of a release, which brings Wine 10 in its folder root, or run `make root`: " +
	"hosts then run with that Wine, and nothing is installed"

func (e *UnfitError) Error() string {
	var mends []string
	functions := map[string][]string{}
	for _, u := range e.Unfit {
		if functions[u.Mend] == nil {
			mends = append(mends, u.Mend)
		}
		functions[u.Mend] = append(functions[u.Mend], u.Function)
	}
	for i, name := range mends {
		mends[i] = name + " (" + strings.Join(functions[name], ", ") + ")"
	}
	return fmt.Sprintf("hosts cannot run with this Wine, %s (%s): "+
		"these mends do not fit it, as they do Debian's Wine 8.0 and 10.0: %s; %s",
		e.Version, e.Loader, strings.Join(mends, ", "), cure)
}

// Refused tells package cli/program that nothing has been changed.
func (e *UnfitError) Refused() bool { return true }

// parseUnfit reads what mended.exe says (emulator/dll/mended.c). It is an error if it says less or more.
func parseUnfit(text string) ([]Unfit, error) {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
	number, ok := strings.CutPrefix(lines[0], "unfit ")
	count, err := strconv.Atoi(number)
	if !ok || err != nil || count != len(lines)-1 {
		return nil, fmt.Errorf("a program that asks which mends fit says %q", text)
	}

	var list []Unfit
	for _, line := range lines[1:] {
		mend, rest, _ := strings.Cut(line, " ")
		function, what, ok := strings.Cut(rest, ": ")
		if !ok {
			return nil, fmt.Errorf("a program that asks which mends fit says %q", line)
		}
		list = append(list, Unfit{mend, function, what})
	}
	return slices.Clip(list), nil
}
