package hcn

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unsafe"

	"github.com/Microsoft/go-winio/pkg/guid"
	"golang.org/x/sys/windows"

	"porthole.dev/porthole/hns"
)

// This is the part of computenetwork.dll that a service proxy calls thousands of times. hcsshim has it too, but only
// as whole lists (three calls per object, failing as a whole when one object vanishes meanwhile) and with a version
// that it remembers for the life of the process, errors included.

var (
	computenetwork = windows.NewLazySystemDLL("computenetwork.dll")
	vmcompute      = windows.NewLazySystemDLL("vmcompute.dll")
	combase        = windows.NewLazySystemDLL("api-ms-win-core-com-l1-1-0.dll")

	procHNSCall       = vmcompute.NewProc("HNSCall")
	procCoTaskMemFree = combase.NewProc("CoTaskMemFree")
)

// object is a kind of HNS object: the functions that all kinds have alike.
type object struct {
	enumerate, create, open, modify, query, remove, close *windows.LazyProc
}

// objectOf names the seven functions of one kind of object.
func objectOf(name string) object {
	proc := func(verb, suffix string) *windows.LazyProc {
		return computenetwork.NewProc("Hcn" + verb + name + suffix)
	}
	return object{
		enumerate: proc("Enumerate", "s"), create: proc("Create", ""), open: proc("Open", ""),
		modify: proc("Modify", ""),
		query:  proc("Query", "Properties"), remove: proc("Delete", ""), close: proc("Close", ""),
	}
}

var networks, endpoints, namespaces, balancers = objectOf("Network"), objectOf("Endpoint"), objectOf("Namespace"),
	objectOf("LoadBalancer")

// handle is HNS's; it is valid in every thread of this process until it is closed.
type handle uintptr

// hresult is a failed call.
type hresult struct {
	code uint32 // facility 7 reduced to the Win32 code
	text string // HNS's own record, "" when it gave none
}

func (h *hresult) Error() string {
	if h.text != "" {
		return h.text
	}
	return syscall.Errno(h.code).Error()
}

// invoke calls a function of HNS. A missing library or export is an error, not a panic. What the arguments point at
// stays where it is until the call ends.
//
//go:uintptrescapes
func invoke(proc *windows.LazyProc, record **uint16, args ...uintptr) error {
	if err := proc.Find(); err != nil {
		return fmt.Errorf("the HNS libraries of this host cannot be called: %w", err)
	}
	r, _, _ := syscall.SyscallN(proc.Addr(), args...)
	text := ""
	if record != nil {
		text = taken(*record)
	}

	if int32(r) >= 0 && text == "" {
		return nil
	}
	// A success with an error record is an error too, with the record's code.
	code := uint32(r)
	var said struct {
		Error     string
		ErrorCode uint32
	}

	if text != "" && json.Unmarshal([]byte(text), &said) == nil {
		if int32(r) >= 0 {
			code = said.ErrorCode
		}
		text = strings.TrimSpace(said.Error)
	}
	return &hresult{code: hns.ReduceCode(code), text: text}
}

// taken copies a string of HNS and frees it.
func taken(s *uint16) string {
	if s == nil {
		return ""
	}
	text := windows.UTF16PtrToString(s)
	if procCoTaskMemFree.Find() == nil {
		_, _, _ = syscall.SyscallN(procCoTaskMemFree.Addr(), uintptr(unsafe.Pointer(s)))
	}
	return text
}

// guidOf reads an id. windows.GUIDFromString does too, and would have ole32.dll and the window system loaded for it,
// into each CNI plugin.
func guidOf[T ~string](id T) (windows.GUID, error) {
	g, err := guid.FromString(string(id))
	if err != nil {
		return windows.GUID{}, fmt.Errorf("%q is no id", id)
	}
	return windows.GUID(g), nil
}

// ids lists ids as HNS writes them.
func (o object) ids(filter map[string]string) ([]string, error) {
	q, err := windows.UTF16PtrFromString(queryFor(filter))
	if err != nil {
		return nil, err
	}
	var list, record *uint16
	err = invoke(o.enumerate, &record, uintptr(unsafe.Pointer(q)), uintptr(unsafe.Pointer(&list)),
		uintptr(unsafe.Pointer(&record)))
	if err != nil {
		return nil, err
	}
	var ids []string
	if err := json.Unmarshal([]byte(taken(list)), &ids); err != nil {
		return nil, fmt.Errorf("HNS listed something that is no list: %w", err)
	}
	return ids, nil
}

// opened and closed handle one object; a call on it comes between.
func (o object) opened(id string) (handle, error) {
	g, err := guidOf(id)
	if err != nil {
		return 0, err
	}
	var h handle
	var record *uint16
	err = invoke(o.open, &record, uintptr(unsafe.Pointer(&g)), uintptr(unsafe.Pointer(&h)),
		uintptr(unsafe.Pointer(&record)))
	return h, err
}

func (o object) closed(h handle) {
	// A handle that cannot be closed leaks in HNS; there is nothing to do about it.
	_ = invoke(o.close, nil, uintptr(h))
}

// asked gives the document behind a handle. One that is no JSON is garbage, not a failure: doc keeps what it has.
func (o object) asked(h handle, doc any) error {
	q, err := windows.UTF16PtrFromString(queryFor(nil))
	if err != nil {
		return err
	}
	var properties, record *uint16
	err = invoke(o.query, &record, uintptr(h), uintptr(unsafe.Pointer(q)), uintptr(unsafe.Pointer(&properties)),
		uintptr(unsafe.Pointer(&record)))
	if err != nil {
		return err
	}
	_ = json.Unmarshal([]byte(taken(properties)), doc)
	return nil
}

// read opens, queries and closes.
func (o object) read(id string, doc any) error {
	h, err := o.opened(id)
	if err != nil {
		return err
	}
	defer o.closed(h)
	return o.asked(h, doc)
}

// made creates an object; network is the parent of an endpoint, 0 for others. Doc, if given, takes what HNS made of it.
func (o object) made(network handle, settings, doc any) error {
	s, err := windows.UTF16PtrFromString(string(mustJSON(settings)))
	if err != nil {
		return err
	}

	var h handle
	var record *uint16
	var none windows.GUID
	if network != 0 {
		err = invoke(o.create, &record, uintptr(network), uintptr(unsafe.Pointer(&none)), uintptr(unsafe.Pointer(s)),
			uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&record)))
	} else {
		err = invoke(o.create, &record, uintptr(unsafe.Pointer(&none)), uintptr(unsafe.Pointer(s)),
			uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&record)))
	}
	if err != nil {
		return err
	}
	defer o.closed(h)
	if doc == nil {
		return nil
	}
	return o.asked(h, doc)
}

// modified gives an object new settings and, unless doc is nil, reads it back.
func (o object) modified(id string, settings, doc any) error {
	s, err := windows.UTF16PtrFromString(string(mustJSON(settings)))
	if err != nil {
		return err
	}
	h, err := o.opened(id)
	if err != nil {
		return err
	}
	defer o.closed(h)
	var record *uint16
	if err := invoke(o.modify, &record, uintptr(h), uintptr(unsafe.Pointer(s)),
		uintptr(unsafe.Pointer(&record))); err != nil {
		return err
	}
	if doc == nil {
		return nil
	}
	return o.asked(h, doc)
}

// removed deletes an object by its id, without a handle.
func (o object) removed(id string) error {
	g, err := guidOf(id)
	if err != nil {
		return err
	}
	var record *uint16
	return invoke(o.remove, &record, uintptr(unsafe.Pointer(&g)), uintptr(unsafe.Pointer(&record)))
}

// version asks HNS through its first interface, the only one that tells it.
func version() (hns.Version, error) { return first[hns.Version]("/globals/version") }

// first gets something by HNS's first interface.
func first[T any](path string) (T, error) { return asked[T]("GET", path, "") }

// asked makes a call of HNS's first interface.
func asked[T any](method, path, body string) (T, error) {
	var none T
	var args [3]*uint16
	for i, text := range []string{method, path, body} {
		var err error
		if args[i], err = windows.UTF16PtrFromString(text); err != nil {
			return none, err
		}
	}

	var response *uint16
	err := invoke(procHNSCall, nil, uintptr(unsafe.Pointer(args[0])), uintptr(unsafe.Pointer(args[1])),
		uintptr(unsafe.Pointer(args[2])), uintptr(unsafe.Pointer(&response)))
	if err != nil {
		return none, err
	}

	var said struct {
		Success bool
		Error   string
		Output  T
	}
	if err := json.Unmarshal([]byte(taken(response)), &said); err != nil {
		return none, fmt.Errorf("HNS's answer to %s %s is not understood: %w", method, path, err)
	}
	switch text := strings.TrimSpace(said.Error); {
	case said.Success:
		return said.Output, nil
	case strings.Contains(text, "already attached"):
		return none, &hresult{code: hns.CodeAttached, text: text} // older builds give the text alone
	default:
		return none, errors.New(text)
	}
}
