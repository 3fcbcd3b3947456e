package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// script runs the part of PowerShell that upstream's tests of HostProcess containers are written in: blocks, if,
// throw, exit, variables, comparisons of texts, and a few commands. Anything else is an error.
// It is a recursive descent over the text: each method reads one thing at the position at, and runs
// it unless idle.
type script struct {
	text   string
	at     int
	idle   bool // read without being run: the block of an if that does not hold
	out    io.Writer
	env    func(string) string
	values map[string]string // of variables, by their names in lower case; NAME.PROPERTY of objects
	object map[string]string // properties of what the last command answered, if that is an object
	failed bool              // the last command; it is the exit code of the script
}

// runScript runs a script to its end. Its error is an interp.ExitStatus where PowerShell would have ended with another
// exit code than 0.
func runScript(text string, out io.Writer, env func(string) string) error {
	s := &script{text: text, out: out, env: env, values: map[string]string{}}
	if err := s.statements(); err != nil {
		return err
	}
	if s.at < len(s.text) {
		return s.unknown()
	}
	if s.failed {
		return interp.ExitStatus(1)
	}
	return nil
}

// unknown is the error about what is at the position, up to the end of its line.
func (s *script) unknown() error {
	line, _, _ := strings.Cut(s.text[s.at:], "\n")
	return fmt.Errorf("not known here: %q", line)
}

// skip passes spaces, and with lines also the ends of lines, semicolons and comments.
func (s *script) skip(lines bool) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == ' ' || c == '\t' || c == '\r' || lines && (c == '\n' || c == ';'):
			s.at++
		case lines && c == '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

// take passes a word or sign if it comes next.
func (s *script) take(token string) bool {
	s.skip(false)
	rest := s.text[s.at:]
	if len(rest) < len(token) || !strings.EqualFold(rest[:len(token)], token) {
		return false
	}
	after := rest[len(token):]
	// A word must end where it is found: "if" does not begin "ifx".
	if last := token[len(token)-1]; last >= 'a' && last <= 'z' && after != "" &&
		strings.ContainsAny(after[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.") {
		return false
	}
	s.at += len(token)
	return true
}

// statements runs statements up to the end of the text or of the block.
// The sign that ends a block is left for whoever began it.
func (s *script) statements() error {
	for {
		s.skip(true)
		if s.at == len(s.text) || s.text[s.at] == '}' || s.text[s.at] == ')' {
			return nil
		}
		if err := s.statement(); err != nil {
			return err
		}
	}
}

// statement reads one statement. A throw and an exit end the script with an interp.ExitStatus.
func (s *script) statement() error {
	switch {
	case s.take("&"):
		return s.block(true)
	case s.take("if"):
		holds, err := s.condition()
		if err != nil {
			return err
		}
		return s.block(holds)
	case s.take("throw"):
		text, err := s.value()
		if err == nil && !s.idle {
			fmt.Fprintln(s.out, text)
			err = interp.ExitStatus(1)
		}
		return err
	case s.take("exit"):
		word, err := s.value()
		code, e := strconv.Atoi(word)
		if err = errors.Join(err, e); err == nil && !s.idle {
			err = interp.ExitStatus(uint8(code))
		}
		return err
	}

	// Properties of an object are kept as variables named NAME.PROPERTY.
	if name, ok := s.assigned(); ok {
		s.object = nil
		text, err := s.operand()
		if !s.idle {
			s.values[name] = text
			for property, value := range s.object {
				s.values[name+"."+property] = value
			}
		}
		return err
	}
	if s.take("[Environment]::SetEnvironmentVariable(") {
		return s.setEnvironment()
	}
	text, err := s.command()
	if text != "" && err == nil {
		fmt.Fprintln(s.out, text)
	}
	return err
}

// setEnvironment carries out [Environment]::SetEnvironmentVariable(NAME, VALUE, "Machine").
func (s *script) setEnvironment() error {
	var words []string
	for range 3 {
		word, err := s.value()
		if err != nil {
			return err
		}
		words = append(words, strings.TrimSuffix(word, ","))
		s.take(",")
	}
	if !s.take(")") || !strings.EqualFold(words[2], "Machine") {
		return s.unknown()
	}
	if s.idle {
		return nil
	}
	s.failed = false
	return setMachineVariable(words[0], words[1])
}

// assigned passes "$name =".
// What is not an assignment leaves the position where it was.
func (s *script) assigned() (name string, ok bool) {
	begin := s.at
	if s.take("$") {
		from := s.at
		for s.at < len(s.text) && isName(s.text[s.at]) {
			s.at++
		}
		name = strings.ToLower(s.text[from:s.at])
		if name != "" && s.take("=") {
			return name, true
		}
	}
	s.at = begin
	return "", false
}

// isName reports whether a byte can be part of a variable's name.
func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// block runs { … }, or reads it only.
// A block within a block that is only read is read only too.
func (s *script) block(run bool) error {
	if !s.take("{") {
		return s.unknown()
	}
	before := s.idle
	s.idle = before || !run
	err := s.statements()
	s.idle = before
	if err != nil {
		return err
	}
	if !s.take("}") {
		return s.unknown()
	}
	return nil
}

// condition evaluates ( … ): what a command answers, its negation, or a comparison.
func (s *script) condition() (bool, error) {
	if !s.take("(") {
		return false, s.unknown()
	}
	not := s.take("-not")
	left, err := s.operand()
	if err != nil {
		return false, err
	}

	// A command that answers "True" holds.
	holds := strings.EqualFold(left, "True")
	// texts are compared without case
	for op, equal := range map[string]bool{"-ine": false, "-ne": false, "-ieq": true, "-eq": true} {
		if s.take(op) {
			right, err := s.operand()
			if err != nil {
				return false, err
			}
			holds = strings.EqualFold(left, right) == equal
		}
	}
	if !s.take(")") {
		return false, s.unknown()
	}
	return holds != not, nil
}

// operand is a value, or what a command writes.
func (s *script) operand() (string, error) {
	s.skip(false)
	if s.take("(") {
		text, err := s.command()
		if err == nil && !s.take(")") {
			err = s.unknown()
		}
		return text, err
	}
	if s.at < len(s.text) && strings.IndexByte(`'"$`, s.text[s.at]) >= 0 {
		return s.value()
	}
	return s.command()
}

// value is one word: a text in quotes, or without. In all but '…' variables are replaced.
func (s *script) value() (string, error) {
	s.skip(false)
	var word strings.Builder
	quote := byte(0)
	if s.at < len(s.text) && (s.text[s.at] == '\'' || s.text[s.at] == '"') {
		quote = s.text[s.at]
		s.at++
	}

	for s.at < len(s.text) {
		c := s.text[s.at]
		// Within quotes only their own kind ends the text.
		switch {
		case quote != 0 && c == quote:
			s.at++
			return word.String(), nil
		case quote == 0 && strings.IndexByte(" \t\r\n;(){}", c) >= 0:
			return word.String(), nil
		case quote != '\'' && c == '$':
			text, err := s.replaced()
			if err != nil {
				return "", err
			}
			word.WriteString(text)
		default:
			word.WriteByte(c)
			s.at++
		}
	}
	if quote != 0 {
		return "", errors.New("a text has no end")
	}
	return word.String(), nil
}

// replaced is what stands for $(command), $env:NAME or $name.
func (s *script) replaced() (string, error) {
	s.at++
	if s.take("(") {
		text, err := s.command()
		if err == nil && !s.take(")") {
			err = s.unknown()
		}
		return text, err
	}
	// Variables of the process are spelled as they are; those of the script in any case.
	rest := s.text[s.at:]
	ofProcess := len(rest) > 4 && strings.EqualFold(rest[:4], "env:")
	if ofProcess {
		s.at += 4
	}
	begin := s.at
	for s.at < len(s.text) && isName(s.text[s.at]) {
		s.at++
	}
	name := strings.ToLower(s.text[begin:s.at])
	if ofProcess {
		return s.env(s.text[begin:s.at]), nil
	}

	// A property is taken only if there is one of that name; otherwise the point is text.
	end := s.at + 1
	for end < len(s.text) && isName(s.text[end]) {
		end++
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		if value, has := s.values[name+"."+strings.ToLower(s.text[s.at+1:end])]; has {
			s.at = end
			return value, nil
		}
	}
	return s.values[name], nil
}

// command runs one command, and returns what it writes.
func (s *script) command() (string, error) {
	var words []string
	for {
		s.skip(false)
		if s.at == len(s.text) || strings.IndexByte(";\n){}", s.text[s.at]) >= 0 {
			break
		}
		word, err := s.value()
		if err != nil {
			return "", err
		}
		words = append(words, word)
	}

	if len(words) == 0 {
		return "", s.unknown()
	}
	if s.idle {
		return "", nil
	}
	name := strings.ToLower(words[0])
	// Programs are known by their ending; anything else must be a command that is known here.
	if strings.HasSuffix(name, ".exe") {
		return s.program(words)
	}
	if name == "get-wmiobject" &&
		slices.ContainsFunc(words[1:], func(w string) bool { return strings.EqualFold(w, "win32_operatingsystem") }) {
		s.object = operatingSystem(time.Now())
		return "", nil
	}
	text, err := runCommand(name, arguments(words[1:]))
	var missing *os.PathError
	s.failed = errors.As(err, &missing)
	if s.failed { // PowerShell says so, and goes on
		fmt.Fprintln(s.out, err)
		return "", nil
	}
	return text, err
}

// program runs another program. Its exit code becomes the script's if no command follows.
// A program that cannot be started is told in the output, as PowerShell does.
func (s *script) program(words []string) (string, error) {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	s.failed = err != nil
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(s.out, err)
	}
	return strings.TrimRight(string(out), "\r\n"), nil
}

// operatingSystem are properties of WMI's Win32_OperatingSystem, in WMI's form of times.
func operatingSystem(now time.Time) map[string]string {
	const form = "20060102150405.000000+000"
	return map[string]string{"lastbootuptime": now.Add(-sinceBoot()).UTC().Format(form),
		"installdate": installed().UTC().Format(form)}
}

// arguments of a command: -Path and -Value by their beginnings, others in this order.
func arguments(words []string) map[string]string {
	found := map[string]string{}
	order := []string{"path", "value"}
	for i := 0; i < len(words); i++ {
		if name, ok := strings.CutPrefix(strings.ToLower(words[i]), "-"); ok && name != "" && i+1 < len(words) {
			for _, full := range append(order, "seconds") {
				if strings.HasPrefix(full, name) {
					found[full] = words[i+1]
				}
			}
			i++
			continue
		}
		for _, full := range order {
			if _, has := found[full]; !has {
				found[full] = words[i]
				break
			}
		}
	}
	return found
}

// runCommand runs a command that is known here, with its arguments by name. A file that is missing
// is an os.PathError, after which the script goes on.
func runCommand(name string, a map[string]string) (string, error) {
	switch name {
	case "hostname":
		return os.Hostname()
	case "test-path":
		_, err := os.Stat(a["path"])
		return map[bool]string{true: "True", false: "False"}[err == nil], nil

	case "get-content":
		data, err := os.ReadFile(a["path"])
		return strings.TrimRight(string(data), "\r\n"), err
	case "set-content":
		return "", os.WriteFile(a["path"], []byte(a["value"]+"\r\n"), 0o644)
	case "ls", "get-childitem":
		info, err := os.Stat(a["path"])
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %d %s", info.Mode(), info.Size(), filepath.Base(a["path"])), nil
	case "write-output", "write-host":
		return a["path"], nil
	case "sleep", "start-sleep":
		seconds, err := strconv.Atoi(a["seconds"] + a["path"])
		time.Sleep(time.Duration(seconds) * time.Second)
		return "", err
	}
	return "", fmt.Errorf("command %q is not known here", name)
}
