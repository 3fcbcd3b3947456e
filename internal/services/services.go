// Package services installs the programs of a node as services of Windows. It has the wanted configuration of each
// service, compares it with that in the service manager, and makes the changes.
package services

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Spec is the configuration of a service in the service manager.
type Spec struct {
	Name         string   `json:"name"`
	DisplayName  string   `json:"displayName"`
	Description  string   `json:"description"`
	Command      []string `json:"command"` // program, with its full path, and arguments
	Dependencies []string `json:"dependencies"`
	Start        string   `json:"start"` // automatic, delayed, manual or disabled
	Account      string   `json:"account"`
	// Restart is how long after the first failure, the second, … the service is started again; the last holds for all
	// later failures.
	Restart []Duration `json:"restart"`
	Reset   Duration   `json:"reset"` // time without a failure after which the count of failures begins at 0 again
	// OnError: a service that reports that it stopped because of an error has failed too, as with `sc failureflag NAME
	// 1`.
	OnError bool `json:"onError"`
	// Environment are variables, as NAME=VALUE, that the service's process has beside those of the machine, sorted.
	Environment []string `json:"environment,omitempty"`
}

// Duration is a time.Duration that JSON has as text, such as "10m0s".
type Duration time.Duration

// MarshalText prints the duration as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText is the reverse of MarshalText.
func (d *Duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	*d = Duration(parsed)
	return err
}

// Status is what the service manager knows of a service.
type Status struct {
	Spec
	State string `json:"state"` // running, stopped, starting, stopping
	PID   uint32 `json:"pid,omitempty"`
	// ExitCode is an error code of Windows. 0: the service runs or ended without an error. 1067: its process ended
	// without reporting that to the manager. 1077: it was not started since the machine was.
	ExitCode uint32 `json:"exitCode"`
	// LastError is the last error in the service's log file; "" if there is none, or no file.
	LastError string `json:"lastError,omitempty"`
	Log       string `json:"log,omitempty"`
}

// Program is one that can be a service.
type Program struct {
	Name, Command string // of the service; of `porthole`
	display, text string
}

// Programs of a node, in the order in which they are started.
var Programs = []Program{
	{"porthole-routes", "routes", "Porthole routes",
		"Keeps the pod network of this Kubernetes node and its routes to the other nodes."},
	{"kube-proxy", "kube-proxy", "Kubernetes service proxy (Porthole)",
		"Programs the services of Kubernetes as HNS load balancers of this node."},
	{"kubelet", "kubelet", "Kubernetes node agent (Porthole)", "Runs the pods of this Kubernetes node."},
}

// Find returns the program that a user names by its command or its service.
func Find(name string) (Program, error) {
	var known []string
	for _, p := range Programs {
		if strings.EqualFold(name, p.Command) || strings.EqualFold(name, p.Name) {
			return p, nil
		}
		known = append(known, p.Command)
	}
	return Program{}, fmt.Errorf("no program %q can be a service: known are %s", name, strings.Join(known, ", "))
}

// Options of an installation.
type Options struct {
	Program   string   // full path of the .exe; required
	LogDir    string   // full path of the folder of log files; required
	DependsOn []string // services
	Args      []string // of the program
	// Environment are variables of the process beside those of the machine.
	Environment map[string]string
}

// Wanted returns the configuration of the service. It starts with the machine, and again 1 s after its first failure,
// 5 s after the second and 15 s after each later one. It has no dependencies unless the options give some: the program
// waits by itself for what it needs, and Windows would stop it with a service that it depends on.
func (p Program) Wanted(o Options) Spec {
	command := []string{o.Program}
	base := strings.ToLower(o.Program[strings.LastIndexAny(o.Program, `\/`)+1:])
	if base != p.Command+".exe" {
		command = append(command, p.Command)
	}
	command = append(command, "--windows-service")
	if !slices.ContainsFunc(o.Args,
		func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "log-file") }) {
		command = append(command, "--log-file="+strings.TrimRight(o.LogDir, `\/`)+`\`+p.Command+".log")
	}
	return Spec{
		Name: p.Name, DisplayName: p.display, Description: p.text, Command: append(command, o.Args...),
		Dependencies: o.DependsOn,
		Start:        "automatic", Account: "LocalSystem",
		Restart: []Duration{Duration(time.Second), Duration(5 * time.Second), Duration(15 * time.Second)},
		Reset:   Duration(10 * time.Minute), OnError: true, Environment: Variables(o.Environment),
	}
}

// Variables returns the list of NAME=VALUE, sorted; nil for none.
func Variables(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// ParseVariables reads NAME=VALUE. A name is refused that Windows would not take, and PATH, by which Windows finds
// libraries.
func ParseVariables(list []string) (map[string]string, error) {
	env := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || name == "" || strings.ContainsAny(text, "\x00\n"):
			return nil, fmt.Errorf("%q is not NAME=VALUE", text)
		case strings.EqualFold(name, "PATH"):
			return nil, errors.New("PATH of a service stays that of the machine")
		}
		env[name] = value
	}
	return env, nil
}

// Change is one difference between what is and what shall be.
type Change struct {
	Service string `json:"service"` // its name
	Field   string `json:"field"`   // "" for the whole service
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
}

// String returns the change as a line of text for users.
func (c Change) String() string {
	switch {
	case c.Field == "" && c.From == "":
		return "create service " + c.Service + ": " + c.To
	case c.Field == "":
		return "delete service " + c.Service + ": " + c.From
	}
	return fmt.Sprintf("change service %s: %s from %s to %s", c.Service, c.Field, c.From, c.To)
}

// Diff lists what must change so that the service is as wanted. observed is nil if there is no such service.
func Diff(wanted Spec, observed *Spec) []Change {
	if observed == nil {
		return []Change{{Service: wanted.Name, To: strings.Join(wanted.Command, " ")}}
	}
	var changes []Change
	before := observed.fields()
	after := wanted.fields()
	for i, f := range after {
		if before[i][1] != f[1] {
			changes = append(changes, Change{Service: wanted.Name, Field: f[0], From: before[i][1], To: f[1]})
		}
	}
	return changes
}

func (s Spec) fields() [][2]string {
	restart := make([]string, len(s.Restart))
	for i, d := range s.Restart {
		restart[i] = time.Duration(d).String()
	}
	return [][2]string{
		{"display name", s.DisplayName}, {"description", s.Description}, {"command", strings.Join(s.Command, " ")},
		{"dependencies", or(strings.Join(s.Dependencies, ", "), "none")}, {"start", s.Start}, {"account", s.Account},
		{"restart after failures", or(strings.Join(restart, ", "), "never")},
		{"time after which failures are forgotten", time.Duration(s.Reset).String()},
		{"restart after errors", fmt.Sprint(s.OnError)}, {"environment", or(strings.Join(s.Environment, ", "), "none")},
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// CheckOwner returns an error if a service with one of our names runs another program than ours, such as one that nssm
// installed.
func CheckOwner(s Spec) error {
	program := ""
	if len(s.Command) > 0 {
		program = s.Command[0]
	}
	switch strings.ToLower(program[strings.LastIndexAny(program, `\/`)+1:]) {
	case "porthole.exe", "kubelet.exe", "kube-proxy.exe":
		return nil
	}
	return fmt.Errorf("service %s belongs to %s: `sc.exe delete %s` removes it", s.Name, or(program, "another program"),
		s.Name)
}

// LogFile returns the log file of the service's command line, "" if it has none.
func (s Spec) LogFile() string {
	for i, arg := range s.Command {
		name, value, found := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "log-file" && found {
			return value
		}
		if name == "log-file" && i+1 < len(s.Command) {
			return s.Command[i+1]
		}
	}
	return ""
}

// LastError returns the last error in a log: a line of klog that begins with E or F, or the first line of a panic. It
// returns "" if there is none.
func LastError(log string) string {
	lines := strings.Split(strings.ReplaceAll(log, "\r", ""), "\n")
	for _, line := range slices.Backward(lines) {
		if len(line) > 5 && (line[0] == 'E' || line[0] == 'F') && line[1] >= '0' && line[1] <= '9' ||
			strings.HasPrefix(line, "panic: ") ||
			strings.HasPrefix(line, "fatal error: ") {
			return line
		}
	}
	return ""
}

// shutdownOrder returns order, the list in which Windows announces a shutdown to services, with the service in front
// of the first of its dependencies. Dependencies that are not listed are added at the end. A service without
// dependencies needs no place: the result is order.
func shutdownOrder(order []string, name string, dependencies []string) []string {
	if len(dependencies) == 0 {
		return order
	}
	has := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
	}
	order = slices.DeleteFunc(slices.Clone(order), func(s string) bool { return strings.EqualFold(s, name) })
	for _, d := range dependencies {
		if !has(order, d) {
			order = append(order, d)
		}
	}
	return slices.Insert(order, slices.IndexFunc(order, func(s string) bool { return has(dependencies, s) }), name)
}

// ErrOtherSystem is the error of all calls on systems other than Windows.
var ErrOtherSystem = errors.New("only Windows has a service manager")
