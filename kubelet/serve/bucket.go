package serve

import (
	"net"
	"sync"
	"time"
)

// Bounds of the questions about tokens that are not known yet: each second and at once, from one address and from all,
// and addresses that are remembered. Whoever sends made-up tokens spends the share of their own address.
const (
	askedPerSecond, askedAtOnce       = 5, 25
	allAskedPerSecond, allAskedAtOnce = 25, 100
	maxAddresses                      = 1024
)

// bucket holds tokens that are spent one by one and come back at a rate. The zero value is full.
// spent is as of at; level gives it for later.
type bucket struct {
	spent float64
	at    time.Time
}

// level returns how many tokens are spent at a time.
func (b bucket) level(now time.Time, perSecond float64) float64 {
	return max(0, b.spent-now.Sub(b.at).Seconds()*perSecond)
}

// limiter bounds how often the API server is asked on behalf of clients. It is safe for concurrent use.
type limiter struct {
	mu  sync.Mutex
	all bucket
	of  map[string]bucket // by address
}

// allow reports whether the client at a remote address may have one more question asked, and counts it.
func (l *limiter) allow(remote string, now time.Time) bool {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]bucket{}
	}

	// A question that is refused is not counted, so that a client that goes on asking is not shut
	// out longer.
	one := l.of[remote].level(now, askedPerSecond)
	all := l.all.level(now, allAskedPerSecond)
	if one+1 > askedAtOnce || all+1 > allAskedAtOnce {
		return false
	}
	if len(l.of) >= maxAddresses {
		l.forget(now)
	}
	l.of[remote] = bucket{one + 1, now}
	l.all = bucket{all + 1, now}
	return true
}

// forget removes the addresses whose buckets are full again, and all if none is.
func (l *limiter) forget(now time.Time) {
	for address, b := range l.of {
		if b.level(now, askedPerSecond) == 0 {
			delete(l.of, address)
		}
	}
	if len(l.of) >= maxAddresses {
		clear(l.of)
	}
}
