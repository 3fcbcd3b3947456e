package firewall

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Classes and interfaces of netfw.h.
var (
	classPolicy = windows.GUID{Data1: 0xe2b3c97f, Data2: 0x6ae1, Data3: 0x41ac,
		Data4: [8]byte{0x81, 0x7a, 0xf6, 0xf9, 0x21, 0x66, 0xd7, 0xdd}}
	classRule = windows.GUID{Data1: 0x2c5bc43e, Data2: 0x3369, Data3: 0x4c33,
		Data4: [8]byte{0xab, 0x0c, 0xbe, 0x94, 0x69, 0x67, 0x7a, 0xf4}}
	idPolicy = windows.GUID{Data1: 0x98325047, Data2: 0xc671, Data3: 0x4174,
		Data4: [8]byte{0x8d, 0x81, 0xde, 0xfc, 0xd3, 0xf0, 0x31, 0x86}}
	idRule = windows.GUID{Data1: 0xaf230d27, Data2: 0xbaba, Data3: 0x4e42,
		Data4: [8]byte{0xac, 0xed, 0xf5, 0x24, 0xf2, 0x2c, 0xfc, 0xe2}}
)

// Places of functions in the tables of interfaces, as netfw.h lists them behind the seven of IUnknown and IDispatch.
const (
	release = 2

	policyRules = 18 // INetFwPolicy2.get_Rules

	rulesAdd, rulesRemove, rulesItem = 8, 9, 10 // INetFwRules

	// INetFwRule; the function that sets a property follows the one that gets it.
	ruleName, ruleProgram, ruleService, ruleProtocol, rulePorts, ruleRemotePorts = 7, 11, 13, 15, 17, 19
	ruleLocal, ruleRemote, ruleDirection, ruleEnabled, ruleGroup                 = 21, 23, 27, 33, 35
	ruleProfiles, ruleAction                                                     = 37, 41
)

// Values of icftypes.h and of VARIANT_BOOL.
const (
	directionIn  = 1
	actionAllow  = 1
	allProfiles  = 0x7fffffff
	variantTrue  = 0xffff
	anyAddresses = "*"
)

var (
	ole          = windows.NewLazySystemDLL("ole32.dll")
	oleaut       = windows.NewLazySystemDLL("oleaut32.dll")
	coInitialize = ole.NewProc("CoInitializeEx")
	coUnload     = ole.NewProc("CoUninitialize")
	coCreate     = ole.NewProc("CoCreateInstance")
	newText      = oleaut.NewProc("SysAllocString")
	freeText     = oleaut.NewProc("SysFreeString")
)

// object is a COM object: a pointer to a pointer to the table of its functions.
type object struct{ table *[64]uintptr }

// call calls the function at a place of the table.
func (o *object) call(place int, args ...uintptr) error {
	result, _, _ := syscall.SyscallN(o.table[place], append([]uintptr{uintptr(unsafe.Pointer(o))}, args...)...)
	return failed(result)
}

func (o *object) release() { _, _, _ = syscall.SyscallN(o.table[release], uintptr(unsafe.Pointer(o))) }

// Facilities and codes of HRESULTs (winerror.h).
const (
	facilityWin32 = 0x8007_0000
	epNotThere    = 0x8007_06d9 // EPT_S_NOT_REGISTERED: what the firewall's calls return while its service is stopped
)

// failed returns the error of an HRESULT: that of Windows, where it stands for one.
func failed(result uintptr) error {
	code := uint32(result)
	switch {
	case int32(code) >= 0:
		return nil
	case code == epNotThere:
		return ErrOff
	case code&0xffff_0000 == facilityWin32:
		return windows.Errno(code & 0xffff)
	}
	return fmt.Errorf("HRESULT 0x%08x", code)
}

// withText calls do with a BSTR, which the callee copies.
func withText(text string, do func(uintptr) error) error {
	wide, err := windows.UTF16PtrFromString(text)
	if err != nil {
		return err
	}
	b, _, _ := newText.Call(uintptr(unsafe.Pointer(wide)))
	if b == 0 {
		return windows.ERROR_NOT_ENOUGH_MEMORY
	}
	defer freeText.Call(b) //nolint:errcheck // it has no result
	return do(b)
}

func create(class, id *windows.GUID) (*object, error) {
	const inProcess = 1 // CLSCTX_INPROC_SERVER
	var o *object
	result, _, _ := coCreate.Call(uintptr(unsafe.Pointer(class)), 0, inProcess, uintptr(unsafe.Pointer(id)),
		uintptr(unsafe.Pointer(&o)))
	return o, failed(result)
}

// rules is INetFwRules.
type rules struct{ *object }

// withRules calls do with the firewall rules of this host. It holds its thread meanwhile, because COM is initialized
// for each thread.
func withRules(do func(rules) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	result, _, _ := coInitialize.Call(0, 0) // COINIT_MULTITHREADED
	if err := failed(result); err != nil {
		return fmt.Errorf("opening the firewall: %w", err)
	}
	defer coUnload.Call() //nolint:errcheck // it has no result

	policy, err := create(&classPolicy, &idPolicy)
	if err != nil {
		return fmt.Errorf("opening the firewall: %w", err)
	}
	defer policy.release()
	var list *object
	if err := policy.call(policyRules, uintptr(unsafe.Pointer(&list))); err != nil {
		return fmt.Errorf("opening the firewall's rules: %w", err)
	}
	defer list.release()
	return do(rules{list})
}

// get returns a rule; errNoRule if there is none of this name.
func (r rules) get(name string) (Rule, error) {
	var o *object
	if err := withText(name, func(text uintptr) error {
		return r.call(rulesItem, text, uintptr(unsafe.Pointer(&o)))
	}); err != nil {
		return Rule{}, err
	}
	defer o.release()

	out, read := Rule{Name: name}, reader{object: o}
	out.Program = read.text(ruleProgram)
	out.Ports = every(read.text(rulePorts))
	out.Group = read.text(ruleGroup)
	out.Protocol = read.number(ruleProtocol)
	whole := read.number(ruleDirection) == directionIn && read.number(ruleAction) == actionAllow &&
		uint16(read.number(ruleEnabled)) == variantTrue &&
		read.number(ruleProfiles) == allProfiles
	for _, place := range []int{ruleService, ruleRemotePorts, ruleLocal, ruleRemote} {
		whole = whole && every(read.text(place)) == ""
	}
	out.Limited = !whole
	return out, read.failed
}

// every returns "" for the text that stands for all ports or addresses.
func every(text string) string {
	if text == anyAddresses {
		return ""
	}
	return text
}

// reader reads properties of a rule until one cannot be read.
type reader struct {
	*object
	failed error
}

func (r *reader) text(place int) string {
	var b *uint16
	r.failed = errors.Join(r.failed, r.call(place, uintptr(unsafe.Pointer(&b))))
	if b == nil {
		return ""
	}
	defer freeText.Call(uintptr(unsafe.Pointer(b))) //nolint:errcheck // it has no result
	return windows.UTF16PtrToString(b)
}

func (r *reader) number(place int) int32 {
	var n int32 // VARIANT_BOOL takes its first two bytes
	r.failed = errors.Join(r.failed, r.call(place, uintptr(unsafe.Pointer(&n))))
	return n
}

// add makes a rule. Its protocol is set before its ports, which would be refused otherwise.
func (r rules) add(rule Rule) error {
	o, err := create(&classRule, &idRule)
	if err != nil {
		return err
	}
	defer o.release()
	text := func(place int, value string) error {
		if value == "" {
			return nil
		}
		return withText(value, func(b uintptr) error { return o.call(place+1, b) })
	}
	number := func(place int, value uintptr) error { return o.call(place+1, value) }
	err = errors.Join(text(ruleName, rule.Name), text(ruleGroup, rule.Group), text(ruleProgram, rule.Program),
		number(ruleProtocol, uintptr(rule.Protocol)),
		text(rulePorts, rule.Ports), number(ruleDirection, directionIn), number(ruleAction, actionAllow),
		number(ruleProfiles, allProfiles), number(ruleEnabled, variantTrue))
	if err != nil {
		return err
	}
	return r.call(rulesAdd, uintptr(unsafe.Pointer(o)))
}

func (r rules) remove(name string) error {
	return withText(name, func(b uintptr) error { return r.call(rulesRemove, b) })
}
