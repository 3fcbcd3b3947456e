package hnsd

import (
	"encoding/json"
	"fmt"
)

// Error is a failing HRESULT with the text of its error record.
type Error struct {
	Code uint32
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (0x%08x)", e.Text, e.Code) }

// Record is the error record as JSON. Windows ends the text with a blank.
func (e *Error) Record() string {
	data, _ := json.Marshal(map[string]any{"Success": false, "Error": e.Text + " ", "ErrorCode": e.Code})
	return string(data)
}

// WithText is the same code with a more precise text.
func (e *Error) WithText(format string, args ...any) *Error {
	return &Error{Code: e.Code, Text: fmt.Sprintf(format, args...)}
}

// The errors that HNS gives, by the names of their codes.
var (
	ErrNotImplemented        = &Error{0x80004001, "Not implemented."}
	ErrInvalidHandle         = &Error{0x80070006, "The handle is invalid."}
	ErrInvalidParameter      = &Error{0x80070057, "The parameter is incorrect."}
	ErrAlreadyExists         = &Error{0x800700b7, "Cannot create a file when that file already exists."}
	ErrElementNotFound       = &Error{0x80070490, "Element not found."}
	ErrObjectAlreadyExists   = &Error{0x80071392, "The object already exists."}
	ErrNetworkNotFound       = &Error{0x803b0001, "The network was not found."}
	ErrEndpointNotFound      = &Error{0x803b0002, "The endpoint was not found."}
	ErrAdapterNotFound       = &Error{0x803b0006, "The network adapter was not found."}
	ErrInvalidNetworkType    = &Error{0x803b000b, "The specified network type is invalid."}
	ErrInvalidPolicy         = &Error{0x803b000d, "The specified policy is invalid."}
	ErrInvalidPolicyType     = &Error{0x803b000e, "The specified policy type is invalid."}
	ErrNetworkAlreadyExists  = &Error{0x803b0010, "A network with this name already exists."}
	ErrPolicyAlreadyExists   = &Error{0x803b0012, "The specified policy already exists."}
	ErrPortAlreadyExists     = &Error{0x803b0013, "The specified port already exists."}
	ErrAlreadyAttached       = &Error{0x803b0014, "This endpoint is already attached to the switch."}
	ErrRequestUnsupported    = &Error{0x803b0015, "The specified request is unsupported."}
	ErrFailed                = &Error{0x80004005, "Unspecified error."}
	ErrDegraded              = &Error{0x803b0017, "The operation was degraded."}
	ErrInvalidJSON           = &Error{0x803b001b, "The JSON document is invalid."}
	ErrInOtherNamespace      = &Error{0x803b002b, "The endpoint is in another namespace already."}
	ErrHasReferences         = &Error{0x803b002c, "The entity has references and cannot be removed."}
	ErrAddressInvalid        = &Error{0x803b002f, "An address provided is invalid or reserved."}
	ErrInvalidPrefix         = &Error{0x803b0030, "The specified prefix is invalid."}
	ErrInvalidSubnet         = &Error{0x803b0032, "The specified subnet is invalid."}
	ErrEndpointNotAttached   = &Error{0x803b0034, "The endpoint is not attached."}
	ErrServiceNotStarted     = &Error{0x80070426, "The service has not been started."}
	ErrSwitchPortNotFound    = &Error{0x803b0007, "The switch-port was not found."}
	ErrDefaultNamespaceExist = &Error{0x803b0029, "The default namespace already exists."}
)
