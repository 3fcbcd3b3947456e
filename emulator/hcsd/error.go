package hcsd

import (
	"encoding/json"
	"fmt"
)

// Error is a failing HRESULT. Errors of vmcompute.dll are HRESULTs of facility 0x37 with the top two bits set, and of
// Win32.
type Error struct {
	Code uint32
	Text string // becomes the error record; "" for none
}

func (e *Error) Error() string { return fmt.Sprintf("%#x %s", e.Code, e.Text) }

// Is makes errors with the same code the same, whatever their text.
func (e *Error) Is(other error) bool {
	o, ok := other.(*Error)
	return ok && o.Code == e.Code
}

// WithText is the same code with a more precise text.
func (e *Error) WithText(format string, args ...any) *Error {
	return &Error{Code: e.Code, Text: fmt.Sprintf(format, args...)}
}

// Record is the error as HCS gives it beside the code: hcsshim's hcsResult (internal/hcs/errors.go).
func (e *Error) Record() string {
	data, err := json.Marshal(map[string]any{"Error": int32(e.Code), "ErrorMessage": e.Text})
	if err != nil {
		return "{}"
	}
	return string(data)
}

// The errors of HCS: names and texts as in winerror.h, codes as hcsshim compares them (internal/hcs/errors.go).
var (
	// HCS_E_OPERATION_PENDING
	ErrPending = &Error{0xc0370103, "The operation is pending."}
	// HCS_E_INVALID_STATE
	ErrInvalidState = &Error{0xc0370105,
		"The requested virtual machine or container operation is not valid in the current state."}
	// HCS_E_UNEXPECTED_EXIT
	ErrUnexpectedExit = &Error{0xc0370106, "The virtual machine or container exited unexpectedly."}
	// HCS_E_UNKNOWN_MESSAGE
	ErrUnknownMessage = &Error{0xc037010b, "The virtual machine or container does not support the message."}
	// HCS_E_INVALID_JSON
	ErrInvalidJSON = &Error{0xc037010d, "The virtual machine or container JSON document is invalid."}
	// HCS_E_SYSTEM_NOT_FOUND
	ErrSystemNotFound = &Error{0xc037010e,
		"A virtual machine or container with the specified identifier does not exist."}
	// HCS_E_SYSTEM_ALREADY_EXISTS
	ErrSystemExists = &Error{0xc037010f, "A virtual machine or container with the specified identifier already exists."}
	// HCS_E_SYSTEM_ALREADY_STOPPED
	ErrAlreadyStopped = &Error{0xc0370110,
		"The virtual machine or container with the specified identifier is not running."}
	// HCS_E_PROCESS_ALREADY_STOPPED
	ErrProcessStopped = &Error{0x8037011f, "The process has already exited."}
	// E_NOTIMPL
	ErrNotImplemented = &Error{0x80004001, "Not implemented."}
	// E_FAIL
	ErrFailed = &Error{0x80004005, "Unspecified error."}
	// ERROR_FILE_NOT_FOUND
	ErrFileNotFound = &Error{0x80070002, "The system cannot find the file specified."}
	// ERROR_PATH_NOT_FOUND
	ErrPathNotFound = &Error{0x80070003, "The system cannot find the path specified."}
	// ERROR_ACCESS_DENIED
	ErrAccessDenied = &Error{0x80070005, "Access is denied."}
	// ERROR_INVALID_HANDLE
	ErrInvalidHandle = &Error{0x80070006, "The handle is invalid."}
	// ERROR_INVALID_DATA
	ErrInvalidData = &Error{0x8007000d, "The data is invalid."}
	// ERROR_NOT_READY
	ErrNotReady = &Error{0x80070015, "The device is not ready."}
	// ERROR_SHARING_VIOLATION
	ErrInUse = &Error{0x80070020, "The process cannot access the file because it is being used by another process."}
	// ERROR_NOT_SUPPORTED
	ErrNotSupported = &Error{0x80070032, "The request is not supported."}
	// ERROR_INVALID_PARAMETER
	ErrInvalidArgument = &Error{0x80070057, "The parameter is incorrect."}
	// ERROR_DIRECTORY
	ErrDirectoryName = &Error{0x8007010b, "The directory name is invalid."}
	// ERROR_NOT_FOUND
	ErrElementNotFound = &Error{0x80070490, "Element not found."}
	// ERROR_LOGON_FAILURE
	ErrLogonFailure = &Error{0x8007052e, "The user name or password is incorrect."}
)

// Win32 is the HRESULT of an error code of Windows.
func Win32(code uint32) *Error { return &Error{Code: 0x80070000 | code&0xffff} }
