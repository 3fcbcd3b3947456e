package scm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Fault makes calls of programs fail. It is consumed as it strikes.
type Fault struct {
	Function string // create, open, change, change2, delete, start, control
	Service  string // its name; "" for any
	Code     Code   // what the calls return
	Times    int    // how many calls; at least 1
}

// functions are those whose calls can be made to fail.
var functions = []string{"create", "open", "change", "change2", "delete", "start", "control"}

// ParseFault reads FUNCTION:SERVICE:CODE or FUNCTION:SERVICE:CODE:TIMES, such as create:kubelet:1072:2. A service that
// is * is any.
func ParseFault(text string) (f Fault, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		parts = append(parts, "1")
	}
	if len(parts) != 4 || !slices.Contains(functions, parts[0]) {
		return f, fmt.Errorf("%q is not FUNCTION:SERVICE:CODE[:TIMES], with one of %s", text,
			strings.Join(functions, ", "))
	}
	code, err := strconv.ParseUint(parts[2], 10, 32)
	if err != nil || code == 0 {
		return f, fmt.Errorf("%q: %s is no error code of Windows, such as 1072", text, parts[2])
	}
	times, err := strconv.Atoi(parts[3])
	if err != nil || times < 1 {
		return f, fmt.Errorf("%q: %s is no number of calls", text, parts[3])
	}
	f = Fault{Function: parts[0], Service: parts[1], Code: Code(code), Times: times}
	if f.Service == "*" {
		f.Service = ""
	}
	return f, nil
}

// faults are those that have not struck yet. It is safe for concurrent use.
type faults struct {
	mu   sync.Mutex
	list []Fault
}

func (f *faults) add(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fault)
}

// strike returns the code of a fault that a call meets, OK if it meets none.
func (f *faults) strike(function, service string) Code {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		l := &f.list[i]
		if l.Function != function || l.Service != "" && fold(l.Service) != fold(service) || l.Times == 0 {
			continue
		}
		l.Times--
		return l.Code
	}
	return OK
}
