package hns

import (
	"errors"
	"fmt"
)

// Class says what a failed call means for its caller.
type Class string

// Classes of failure. Only Absent means that an object is not there. Unknown means that HNS could not say.
const (
	Absent      Class = "absent"      // the object does not exist
	Exists      Class = "exists"      // an object with this id, name or frontend exists already
	Unsupported Class = "unsupported" // this HNS cannot do it, ever
	Invalid     Class = "invalid"     // the document is wrong: repeating it will not help
	Unknown     Class = "unknown"     // HNS is stopped, slow or broken: nothing follows from it
)

// Error is a failed HNS call.
type Error struct {
	Doing string // "creating endpoint x on network y"
	Class Class
	Code  uint32 // HRESULT or Win32 code, 0 if there is none
	Err   error
}

func (e *Error) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("%s: %v (%s, 0x%x)", e.Doing, e.Err, e.Class, e.Code)
	}
	return fmt.Sprintf("%s: %v (%s)", e.Doing, e.Err, e.Class)
}

func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of a call's error. An error that did not come from HNS, a deadline for example, is
// Unknown; nil has no class.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Unknown
}

// IsAbsent reports whether the object is known not to exist.
func IsAbsent(err error) bool { return ClassOf(err) == Absent }

// Codes that HNS returns for attaching an endpoint that is attached already.
const (
	CodeInNamespace = 0x803b002b // HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS, from HCN
	CodeAttached    = 0x803b0014 // HCN_E_ENDPOINT_ALREADY_ATTACHED, from the older interface
)

// CodePortExists is what HNS returns for a port of the host that something else has (HCN_E_PORT_ALREADY_EXISTS).
const CodePortExists = 0x803b0013

// CodeNoAdapter is what HNS returns for a network that is bound to a network adapter which the host does not have
// (HCN_E_ADAPTER_NOT_FOUND).
const CodeNoAdapter = 0x803b0006

// IsNoAdapter reports whether a network was refused because the host does not have the network adapter that it names.
func IsNoAdapter(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeNoAdapter
}

// IsAttached reports whether a call to attach an endpoint failed because it is attached already, perhaps elsewhere.
func IsAttached(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == CodeInNamespace || e.Code == CodeAttached)
}

// codes are the result codes that HNS was seen to return, with their classes. Names and meanings: winerror.h (most are
// in golang.org/x/sys/windows). Codes of facility 7 stand here as the Win32 code in them (see ReduceCode).
var codes = []struct {
	code  uint32
	class Class
}{
	{0x490, Absent},      // ERROR_NOT_FOUND
	{0x803b0001, Absent}, // HCN_E_NETWORK_NOT_FOUND
	{0x803b0002, Absent}, // HCN_E_ENDPOINT_NOT_FOUND

	{0xb7, Exists},       // ERROR_ALREADY_EXISTS
	{0x1392, Exists},     // ERROR_OBJECT_ALREADY_EXISTS
	{0x803b0010, Exists}, // HCN_E_NETWORK_ALREADY_EXISTS
	{0x803b0012, Exists}, // HCN_E_POLICY_ALREADY_EXISTS
	{CodePortExists, Exists},
	{CodeAttached, Exists},
	{0x803b0029, Exists}, // GCN_E_DEFAULTNAMESPACE_EXISTS

	{0x80004001, Unsupported}, // E_NOTIMPL
	{0x803b000e, Unsupported}, // HCN_E_INVALID_POLICY_TYPE
	{0x803b0015, Unsupported}, // HCN_E_REQUEST_UNSUPPORTED

	{0x57, Invalid},       // ERROR_INVALID_PARAMETER
	{0x803b000b, Invalid}, // HCN_E_INVALID_NETWORK_TYPE
	{0x803b000c, Invalid}, // HCN_E_INVALID_ENDPOINT
	{0x803b000d, Invalid}, // HCN_E_INVALID_POLICY
	{0x803b001b, Invalid}, // HCN_E_INVALID_JSON
	{0x803b001e, Invalid}, // HCN_E_INVALID_IP
	// the endpoint is in another namespace, if the caller has excluded that it is in the wanted one
	{CodeInNamespace, Invalid},
	{0x803b002f, Invalid}, // HCN_E_ADDR_INVALID_OR_RESERVED
	{0x803b0030, Invalid}, // HCN_E_INVALID_PREFIX
	{0x803b0032, Invalid}, // HCN_E_INVALID_SUBNET
	{0x803b0033, Invalid}, // HCN_E_INVALID_IP_SUBNET

	// Nothing follows from these about the object that was asked for.
	{0x803b0007, Unknown}, // HCN_E_PORT_NOT_FOUND, of the switch
	{0x803b0017, Unknown}, // HCN_E_DEGRADED_OPERATION
	{0x803b0020, Unknown}, // HCN_E_MANAGER_STOPPED
	{0x803b002c, Unknown}, // HCN_E_ENTITY_HAS_REFERENCES
	{0x424, Unknown},      // ERROR_SERVICE_DOES_NOT_EXIST
	{0x426, Unknown},      // ERROR_SERVICE_NOT_ACTIVE
	{0x6ba, Unknown},      // RPC_S_SERVER_UNAVAILABLE
	{0x6be, Unknown},      // RPC_S_CALL_FAILED
	{0x6d9, Unknown},      // EPT_S_NOT_REGISTERED
	{0x22, Unknown},       // ERROR_WRONG_DISK: no adapter is ready (flannel-io/flannel#1112)
	{0x34, Unknown},       // ERROR_DUP_NAME: two networks of one name on ICS
	{0x5, Unknown},        // ERROR_ACCESS_DENIED
}

// ReduceCode returns the Win32 code of an HRESULT of facility 7, and any other code as it is. hcsshim does the same.
func ReduceCode(code uint32) uint32 {
	if code&0x1fff0000 == 0x00070000 {
		return code & 0xffff
	}
	return code
}

// ClassOfCode returns the class of a result code, reduced or not. A code that is not known is Unknown.
func ClassOfCode(code uint32) Class {
	for _, c := range codes {
		if c.code == ReduceCode(code) {
			return c.class
		}
	}
	return Unknown
}

// KnownCodes returns the codes that are known, reduced, for callers that can only ask "is it this code?".
func KnownCodes() []uint32 {
	list := make([]uint32, 0, len(codes))
	for _, c := range codes {
		list = append(list, c.code)
	}
	return list
}
