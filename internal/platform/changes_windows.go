package platform

import (
	"context"
	"fmt"

	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

// Change is a kind of change of the host's IP stack.
type Change string

const (
	RouteChange   Change = "route"
	AddressChange Change = "address" // unicast addresses
	AdapterChange Change = "adapter" // settings of an adapter's IP interface: forwarding, metric
)

// WatchIP calls changed once the subscriptions stand, because there may have been changes before, and then after each
// change of these kinds, from any goroutine, until ctx ends. It returns ctx's error, or why Windows did not take a
// subscription.
func WatchIP(ctx context.Context, changed func(), kinds ...Change) error {
	for _, kind := range kinds {
		subscription, err := kind.subscribe(changed)
		if err != nil {
			return fmt.Errorf("subscribing to %s changes: %w", kind, err)
		}
		defer func() { _ = subscription.Unregister() }() // Windows drops what is left with the process
	}

	changed()
	<-ctx.Done()
	return ctx.Err()
}

// subscription is what each function of winipcfg returns that subscribes.
type subscription interface{ Unregister() error }

func (c Change) subscribe(changed func()) (subscription, error) {
	switch c {
	case RouteChange:
		return winipcfg.RegisterRouteChangeCallback(func(winipcfg.MibNotificationType, *winipcfg.MibIPforwardRow2) {
			changed()
		})
	case AddressChange:
		return winipcfg.RegisterUnicastAddressChangeCallback(func(winipcfg.MibNotificationType,
			*winipcfg.MibUnicastIPAddressRow) {
			changed()
		})
	default:
		return winipcfg.RegisterInterfaceChangeCallback(func(winipcfg.MibNotificationType,
			*winipcfg.MibIPInterfaceRow) {
			changed()
		})
	}
}
