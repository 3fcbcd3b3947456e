package hcn

import (
	"context"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/hns"
)

var (
	procRegister   = computenetwork.NewProc("HcnRegisterServiceCallback")
	procUnregister = computenetwork.NewProc("HcnUnregisterServiceCallback")
)

// serviceDisconnect is the notification that HNS went away; callbacks must be registered again
// (learn.microsoft.com, HCN_NOTIFICATIONS).
const serviceDisconnect = 0x01000000

// registerAgain is how often a registration that failed is tried again.
const registerAgain = 5 * time.Second

// Notifications gives a channel that says "something changed" when HNS does, until ctx ends; wake-ups that nobody takes
// are one. It never says anything where HNS does not notify. Call it once per process: Windows has few callbacks to give.
func (c *Client) Notifications(ctx context.Context) <-chan struct{} {
	changed, lost := make(chan struct{}, 1), make(chan struct{}, 1)
	say := func(to chan struct{}) {
		select {
		case to <- struct{}{}:
		default:
		}
	}

	callback := windows.NewCallback(func(kind, _, _, _ uintptr) uintptr {
		if uint32(kind) == serviceDisconnect {
			say(lost)
		}
		say(changed)
		return 0
	})

	go func() {
		for {
			registered, err := call(ctx, c, "register for notifications", "", func() (handle, error) {
				var h handle
				err := invoke(procRegister, nil, callback, 0, uintptr(unsafe.Pointer(&h)))
				return h, err
			})
			if hns.ClassOf(err) == hns.Unsupported {
				return
			}
			var again <-chan time.Time
			if err != nil {
				again = time.After(registerAgain)
			}
			select {
			case <-ctx.Done():
			case <-again:
			case <-lost:
				say(changed)
			}
			if err == nil {
				_ = invoke(procUnregister, nil, uintptr(registered)) // with HNS gone, so is the registration
			}
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	}()
	return changed
}
