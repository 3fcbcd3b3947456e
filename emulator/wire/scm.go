package wire

// SCMPort is where the service manager (package emulator/scm) listens for the DLLs, on the loopback of its host;
// SCMAddress is the TCP address.
const (
	SCMPort    = 10092
	SCMAddress = "127.0.0.1:10092"
)

// Operations of the service manager. In each the handle is the process id that Linux has for the program.
const (
	// SCM is one call: function, service, arguments. The result is an error code of Windows, not an HRESULT.
	SCM Op = 200 + iota
	// SCMDispatch makes this the connection of a service. The first answer has the service's name, or an error if the
	// process is no service. Each further answer is one of SCMStart, SCMControl and SCMEnd, and the service answers
	// the first two with SCMDone.
	SCMDispatch
	// SCMDone says that a control was handled; the handle is what the handler returned.
	SCMDone
)

// Messages to a service, as the result of an answer.
const (
	SCMStart   = 1 // the first text has the arguments
	SCMControl = 2 // the control is the handle
	SCMEnd     = 3 // the service has stopped: the dispatcher returns
)

// Separators of the texts: each field ends with Field, each item of a list in a field with Item, each record with
// Record. A field that is Null alone is NULL.
const (
	Field  = "\x1f"
	Item   = "\x1e"
	Record = "\x1d"
	Null   = "\x02"
)
