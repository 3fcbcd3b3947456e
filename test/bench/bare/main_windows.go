// Command bare makes objects of HNS from a file and does nothing else: what a service proxy cannot be faster than.
//
//	bare FILE
//
// The file has one JSON object per line, {"network": ID, "settings": {…}} for an endpoint and without a network for a
// load balancer. Several callers make the endpoints, and then the load balancers. Then it waits to be ended.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// patience is how long it stays when all is done, as a proxy would: whoever measures ends it.
const patience = 5 * time.Minute

// callers are as many as our proxy has.
const callers = 4

// Calls of the Host Compute Network API, made directly: hcsshim would read each object again, and
// what is measured is the create alone. They take settings as UTF-16 JSON, and give a handle that
// is closed at once.
var (
	computenetwork = windows.NewLazySystemDLL("computenetwork.dll")
	openNetwork    = computenetwork.NewProc("HcnOpenNetwork")
	makeEndpoint   = computenetwork.NewProc("HcnCreateEndpoint")
	closeEndpoint  = computenetwork.NewProc("HcnCloseEndpoint")
	makeBalancer   = computenetwork.NewProc("HcnCreateLoadBalancer")
	closeBalancer  = computenetwork.NewProc("HcnCloseLoadBalancer")
)

// line is one object of the file. Settings are handed to HNS as they stand.
type line struct {
	Network  string          `json:"network"`
	Settings json.RawMessage `json:"settings"`
}

// The program stays when all is made: the bench takes one that has ended for a failure.
func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
	time.Sleep(patience)
}

// run makes all endpoints before the first load balancer, because load balancers name endpoints.
func run(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	var endpoints, balancers []line
	for text := range bytes.Lines(data) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Network != "" {
			endpoints = append(endpoints, l)
		} else {
			balancers = append(balancers, l)
		}
	}

	// All endpoints of a file are on one network; its handle serves for all of them and lives as
	// long as the process.
	var network uintptr
	if len(endpoints) > 0 {
		id, err := windows.GUIDFromString("{" + endpoints[0].Network + "}")
		if err != nil {
			return err
		}
		if err := result(openNetwork.Call(uintptr(unsafe.Pointer(&id)), uintptr(unsafe.Pointer(&network)),
			0)); err != nil {
			return err
		}
	}

	if err := each(endpoints, func(settings *uint16) error {
		// The argument for the ID is the zero GUID: the settings, which a dump of HNS gave, hold
		// the object's own.
		var none windows.GUID
		var made uintptr
		err := result(makeEndpoint.Call(network, uintptr(unsafe.Pointer(&none)), uintptr(unsafe.Pointer(settings)),
			uintptr(unsafe.Pointer(&made)), 0))
		_, _, _ = closeEndpoint.Call(made)
		return err
	}); err != nil {
		return err
	}

	return each(balancers, func(settings *uint16) error {
		var none windows.GUID
		var made uintptr
		err := result(makeBalancer.Call(uintptr(unsafe.Pointer(&none)), uintptr(unsafe.Pointer(settings)),
			uintptr(unsafe.Pointer(&made)), 0))
		_, _, _ = closeBalancer.Call(made)
		return err
	})
}

// result of a call: an HRESULT below zero is a failure.
func result(r, _ uintptr, _ error) error {
	if int32(r) < 0 {
		return fmt.Errorf("HNS: %w", syscall.Errno(uint32(r)))
	}
	return nil
}

// each has all lines made, in their order, by several callers.
// Each caller stops at its first error; the lines that it would have taken go to the others.
func each(lines []line, make func(settings *uint16) error) error {
	var group sync.WaitGroup
	var next atomic.Int64
	errs := [callers]error{}
	for i := range callers {
		group.Go(func() {
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= len(lines) {
					return
				}
				settings, err := windows.UTF16PtrFromString(string(lines[n].Settings))
				if err == nil {
					err = make(settings)
				}
				errs[i] = err
			}
		})
	}

	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}

	return nil
}
