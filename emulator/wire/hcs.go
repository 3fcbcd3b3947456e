package wire

// HCSPort is where hcsd (package emulator/hcsd) listens for vmcompute.dll, on the loopback of its host; HCSAddress is
// the TCP address.
const (
	HCSPort    = 10093
	HCSAddress = "127.0.0.1:10093"
)

// Operations of the Host Compute Service.
const (
	// HCS is one call: the name of the function in vmcompute.dll, what it is about (the id of a system, or the path or
	// name of a layer), and its document. The handle is the pid of the process that it is about. The texts of the
	// answer are what was asked for and the error record; its handle is a pid, or a flag. What a call opens stays open
	// until its connection ends.
	HCS Op = 300 + iota
	// HCSNotify subscribes to the notifications of the system of the first text, or with a handle of its process. The
	// first answer reports whether the subscription stands. Each further one is a notification: its number, and as
	// handle its HRESULT. The end of the connection is the end of the service.
	HCSNotify
	// HCSStream makes this the connection of a standard stream: the system, and "0", "1" or "2"; the handle is the
	// process. After the first answer come pieces of the stream, each after its length in 4 bytes; a length of 0 is
	// the end. Of input the caller sends them.
	HCSStream
)

// HCSDrain is the handle of the answer to a HcsModifyProcess that closes the input of a process: the caller has its
// stream, and ends it when what is on the way has been sent.
const HCSDrain = 1
