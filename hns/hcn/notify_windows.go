package hcn

import (
	"context"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/wakeup"
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

// Notifications returns a channel that receives when something changed in HNS, until ctx ends. Several changes before
// a receive count as one. If this HNS does not notify, the channel never receives. Call it once per process: Windows
// limits the number of callbacks.
func (c *Client) Notifications(ctx context.Context) <-chan struct{} {
	changed, lost := wakeup.New(), wakeup.New()

	callback := windows.NewCallback(func(kind, _, _, _ uintptr) uintptr {
		if uint32(kind) == serviceDisconnect {
			lost.Wake()
		}
		changed.Wake()
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
				changed.Wake()
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
