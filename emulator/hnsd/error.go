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

// The errors that HNS gives, with the names of their codes in winerror.h. Texts are those of Windows' error records.
var (
	// E_NOTIMPL
	ErrNotImplemented = &Error{0x80004001, "Not implemented."}
	// E_FAIL
	ErrFailed = &Error{0x80004005, "Unspecified error."}
	// ERROR_INVALID_HANDLE
	ErrInvalidHandle = &Error{0x80070006, "The handle is invalid."}
	// ERROR_INVALID_PARAMETER
	ErrInvalidParameter = &Error{0x80070057, "The parameter is incorrect."}
	// ERROR_ALREADY_EXISTS
	ErrAlreadyExists = &Error{0x800700b7, "Cannot create a file when that file already exists."}
	// ERROR_NOT_FOUND
	ErrElementNotFound = &Error{0x80070490, "Element not found."}
	// ERROR_OBJECT_ALREADY_EXISTS
	ErrObjectAlreadyExists = &Error{0x80071392, "The object already exists."}
	// HCN_E_NETWORK_NOT_FOUND
	ErrNetworkNotFound = &Error{0x803b0001, "The network was not found."}
	// HCN_E_ENDPOINT_NOT_FOUND
	ErrEndpointNotFound = &Error{0x803b0002, "The endpoint was not found."}
	// HCN_E_ADAPTER_NOT_FOUND
	ErrAdapterNotFound = &Error{0x803b0006, "The network adapter was not found."}
	// HCN_E_INVALID_NETWORK_TYPE
	ErrInvalidNetworkType = &Error{0x803b000b, "The specified network type is invalid."}
	// HCN_E_INVALID_POLICY
	ErrInvalidPolicy = &Error{0x803b000d, "The specified policy is invalid."}
	// HCN_E_INVALID_POLICY_TYPE
	ErrInvalidPolicyType = &Error{0x803b000e, "The specified policy type is invalid."}
	// HCN_E_NETWORK_ALREADY_EXISTS
	ErrNetworkAlreadyExists = &Error{0x803b0010, "A network with this name already exists."}
	// HCN_E_POLICY_ALREADY_EXISTS
	ErrPolicyAlreadyExists = &Error{0x803b0012, "The specified policy already exists."}
	// HCN_E_PORT_ALREADY_EXISTS
	ErrPortAlreadyExists = &Error{0x803b0013, "The specified port already exists."}
	// HCN_E_ENDPOINT_ALREADY_ATTACHED
	ErrAlreadyAttached = &Error{0x803b0014, "This endpoint is already attached to the switch."}
	// HCN_E_REQUEST_UNSUPPORTED
	ErrRequestUnsupported = &Error{0x803b0015, "The specified request is unsupported."}
	// HCN_E_INVALID_JSON
	ErrInvalidJSON = &Error{0x803b001b, "The JSON document is invalid."}
	// HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS
	ErrInNamespace = &Error{0x803b002b,
		"This requested operation is invalid as endpoint is already part of a network namespace."}
	// HCN_E_ENTITY_HAS_REFERENCES
	ErrHasReferences = &Error{0x803b002c, "The entity has references and cannot be removed."}
	// HCN_E_ADDR_INVALID_OR_RESERVED
	ErrAddressInvalid = &Error{0x803b002f, "An address provided is invalid or reserved."}
	// HCN_E_INVALID_PREFIX
	ErrInvalidPrefix = &Error{0x803b0030, "The specified prefix is invalid."}
	// HCN_E_INVALID_SUBNET
	ErrInvalidSubnet = &Error{0x803b0032, "The specified subnet is invalid."}
	// HCN_E_ENDPOINT_NOT_ATTACHED
	ErrEndpointNotAttached = &Error{0x803b0034, "The endpoint is not attached."}
)

// The errors of calls while the service does not run. Those without a text do not come from HNS, so that they have no
// error record: RPC or the service control manager answers.
var (
	ErrServiceNotStarted = &Error{0x80070426, "The service has not been started."} // ERROR_SERVICE_NOT_ACTIVE
	// HCN_E_MANAGER_STOPPED; the text is unverified, no. 64
	ErrServiceStopping = &Error{0x803b0020, "The HNS service is stopping."}
	ErrServiceMissing  = &Error{0x80070424, ""} // ERROR_SERVICE_DOES_NOT_EXIST
	// RPC_S_SERVER_UNAVAILABLE: nobody listens
	ErrServerUnavailable = &Error{0x800706ba, ""}
	// RPC_S_CALL_FAILED: it went away during the call
	ErrCallFailed = &Error{0x800706be, ""}
	// EPT_S_NOT_REGISTERED: it is starting
	ErrNotRegistered = &Error{0x800706d9, ""}
)

// ErrNotSupported is what the IP helper functions answer if hnsd has no data plane (ERROR_NOT_SUPPORTED).
var ErrNotSupported = &Error{0x80070032, ""}
