// Package firewall makes rules of Windows' inbound firewall through its COM interfaces (netfw.h), without starting a
// program. It only adds, reads and removes rules by their names; profiles and policies stay as they are.
package firewall

import "errors"

// Rule is an inbound rule that allows something, for all profiles.
type Rule struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"` // under which the Windows Firewall console lists it
	// Program is the full path of a program; "" for any.
	Program string `json:"program,omitempty"`
	// Protocol is TCP, UDP or Any.
	Protocol int32 `json:"protocol"`
	// Ports are local ones, such as "10250" or "80,90-99"; "" for all.
	Ports string `json:"ports,omitempty"`
	// Limited is set for a rule that was read and does not allow all that its other fields say: it blocks, is
	// disabled, or is for some profiles, addresses, services or outgoing packets only.
	Limited bool `json:"limited,omitempty"`
}

// Protocols as the firewall numbers them (NET_FW_IP_PROTOCOL of icftypes.h).
const (
	TCP = 6
	UDP = 17
	Any = 256
)

// ErrOff is wrapped by errors of calls to a host whose firewall service does not run: nothing filters there.
var ErrOff = errors.New("the service Windows Defender Firewall does not run")

// ErrOtherSystem is the error of all calls on systems other than Windows.
var ErrOtherSystem = errors.New("only Windows has this firewall")
