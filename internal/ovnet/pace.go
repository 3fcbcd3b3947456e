package ovnet

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of how often the API server is asked for pods: half of what the agent's client may ask in all (20 each second,
// 40 at once). The rest is for the node's own conditions and events. queueTime is longer than as many questions as may
// be asked at once need.
const (
	paceEvery = 100 * time.Millisecond
	paceBurst = 20
	queueTime = 12 * time.Second
)

var errBusy = errors.New("this node's agent has too many questions about pods")

// pace lets looks begin: paceBurst at once, then one each paceEvery. The zero value is ready.
type pace struct {
	mu   sync.Mutex
	next time.Time // when a look may begin that comes while all of the burst is used
}

// wait returns when the caller may look, or an error: errBusy if that would be later than queueTime from now.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	at := p.next
	if full := now.Add(-paceBurst * paceEvery); at.Before(full) {
		at = full
	}
	at = at.Add(paceEvery)
	if at.Sub(now) > queueTime {
		p.mu.Unlock()
		return errBusy
	}
	p.next = at
	p.mu.Unlock()

	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
