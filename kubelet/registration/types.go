package registration

import (
	"context"
	"time"

	"porthole.dev/porthole/internal/retry"
)

// The types of plugins (k8s.io/kubelet/pkg/apis/pluginregistration/v1).
const (
	CSIPlugin = "CSIPlugin"
	DRAPlugin = "DRAPlugin"
)

// Plugin is what a plugin says of itself.
type Plugin struct {
	Type, Name string
	// Endpoint is the socket on which the plugin serves its calls.
	Endpoint string
	Versions []string
}

// Handler takes in the plugins of one type. Calls for one socket follow each other; those for several come at the same
// time.
type Handler interface {
	// Register takes in a plugin, or returns why not. It may be called again for one that is registered.
	Register(ctx context.Context, p Plugin) error
	// Deregister forgets a plugin whose socket is gone. It does nothing for one that is not registered, or that is
	// registered from another endpoint meanwhile.
	Deregister(ctx context.Context, p Plugin)
}

// Times of the protocol.
const (
	scanPeriod  = time.Second      // upstream's pkg/kubelet/pluginmanager reconciles as often
	callTimeout = 10 * time.Second // of GetInfo and NotifyRegistrationStatus; upstream dials for as long
)

// registerBackoff are the waits before a plugin that could not be registered is asked again.
var registerBackoff = retry.Backoff{First: 500 * time.Millisecond, Max: 2 * time.Minute}
