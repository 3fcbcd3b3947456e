package kubeproxy

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

// mixedPorts relays for frontends whose backends listen on different ports. It is not safe for concurrent use.
type mixedPorts struct {
	relay *relay.Relay
	at    map[service.Key]relay.Endpoint
}

func newMixedPorts() *mixedPorts {
	return &mixedPorts{relay: relay.New(relay.Options{}), at: map[service.Key]relay.Endpoint{}}
}

// Ports of relays: below node ports (from 30000) and the dynamic ports of Windows (from 49152). The port of a frontend
// is derived from its key, so that after a restart HNS is already as it should be.
const (
	firstRelayPort = 20000
	relayPorts     = 10000
	portAttempts   = 32
)

// Ensure listens for a frontend at an address and relays to the backends. It returns the port; a second call keeps the
// port.
func (m *mixedPorts) Ensure(key service.Key, at netip.Addr, backends []netip.AddrPort, affinity time.Duration) (uint16,
	error) {
	name := key.String()
	m.relay.Set(name, relay.Config{Backends: backends, Affinity: affinity})
	if old, ok := m.at[key]; ok {
		if old.Addr() == at {
			return old.Port(), nil
		}
		m.relay.Unlisten(old)
		delete(m.at, key)
	}

	e := relay.Endpoint{Protocol: hns.TCP}
	if key.Protocol == hns.UDP {
		e.Protocol = hns.UDP
	}

	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // a hash never returns an error
	var err error
	for i := range uint32(portAttempts) {
		e.AddrPort = netip.AddrPortFrom(at, uint16(firstRelayPort+(sum.Sum32()+i)%relayPorts))
		if err = m.relay.Listen(name, e); err == nil {
			m.at[key] = e
			return e.Port(), nil
		}
		if !errors.Is(err, relay.ErrPortTaken) {
			break
		}
	}
	m.relay.Drop(name)
	return 0, fmt.Errorf("relaying for %s: %w", name, err)
}

// Release ends the listener of a frontend.
func (m *mixedPorts) Release(key service.Key) {
	delete(m.at, key)
	m.relay.Drop(key.String())
}
