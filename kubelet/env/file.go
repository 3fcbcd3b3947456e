package env

import (
	"errors"
	"fmt"
	"strings"
)

// InFile returns the value of a key in a file of variables, and whether the file has it. The file is a subset of what
// a POSIX shell reads, as upstream has it (pkg/kubelet/util/env of 1.36.3): NAME='value', where the value may span
// lines and nothing in it has a meaning; comments and empty lines. What follows an equals sign and blanks is not the
// value: NAME= 'x' is empty. The error names the line that is not of this form, if the key was not found before it.
func InFile(text, key string) (value string, ok bool, err error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for at := 0; at < len(lines); at++ {
		line := strings.TrimLeft(lines[at], " \t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}

		name, rest, err := assignment(line)
		if err != nil {
			return "", false, fmt.Errorf("line %d: %w", at+1, err)
		}
		if rest != strings.TrimLeft(rest, " \t") {
			if name == key {
				return "", true, nil
			}
			continue
		}

		began := at + 1
		rest, quoted := strings.CutPrefix(rest, "'")
		if !quoted {
			return "", false, fmt.Errorf("line %d: %w", began, errQuotes)
		}
		value := ""
		for !strings.Contains(rest, "'") {
			if at++; at == len(lines) {
				return "", false, fmt.Errorf("line %d: %w", began, errOpen)
			}
			value, rest = value+rest+"\n", lines[at]
		}
		before, after, _ := strings.Cut(rest, "'")
		if after = strings.TrimLeft(after, " \t"); after != "" && !strings.HasPrefix(after, "#") {
			return "", false, fmt.Errorf("line %d: %w", at+1, errAfter)
		}
		if name == key {
			return value + before, true, nil
		}
	}
	return "", false, nil
}

var (
	errQuotes = errors.New("the value must be enclosed in single quotes")
	errOpen   = errors.New("the single quote is not closed")
	errAfter  = errors.New("something follows the closing quote")
)

// assignment splits a line at its equals sign.
func assignment(line string) (name, rest string, err error) {
	name, rest, ok := strings.Cut(line, "=")
	switch {
	case !ok:
		return "", "", errors.New("there is no '='")
	case strings.TrimRight(name, " \t") == "":
		return "", "", errors.New("there is no name before the '='")
	case name != strings.TrimRight(name, " \t"):
		return "", "", errors.New("there are blanks before the '='")
	}
	return name, rest, nil
}
