package ovn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/internal/wakeup"
)

// Where a kube-proxy of this node answers with upstream's defaults (cmd/kube-proxy: --metrics-bind-address and
// --healthz-bind-address). Programs in its place, as Cilium, answer at the second one too.
const (
	proxyMode   = "http://127.0.0.1:10249/proxyMode"
	proxyHealth = "http://127.0.0.1:10256/healthz"
)

// rivalPeriod is how often a service proxy is looked for, rivalWait how long one answer may take: Windows tries a
// connection to a closed port of its own for two seconds.
const (
	rivalPeriod = 10 * time.Second
	rivalWait   = 5 * time.Second
)

// answer is what one of the addresses said.
type answer struct {
	URL  string
	Body string // its first line, if the status is 200
	Err  error  // nil: somebody answered
}

// rivalOf decides whether a service proxy is at work. known is false if no answer tells: a time that ran out is not a
// port at which nobody listens.
func rivalOf(mode, health answer) (rival string, known bool) {
	switch {
	case mode.Err == nil && mode.Body != "":
		return fmt.Sprintf("a kube-proxy in mode %s (%s)", mode.Body, mode.URL), true
	case health.Err == nil:
		return fmt.Sprintf("a service proxy (it answers at %s)", health.URL), true
	case closed(mode) && closed(health):
		return "", true
	}
	return "", false
}

// closed reports whether an answer shows that no kube-proxy is there.
func closed(a answer) bool {
	return a.Err == nil || errors.Is(a.Err, syscall.ECONNREFUSED) || refusedByWindows(a.Err)
}

// refusedByWindows reports whether err is Windows's own WSAECONNREFUSED, which Go does not translate.
func refusedByWindows(err error) bool {
	const wsaECONNREFUSED = syscall.Errno(10061)
	return errors.Is(err, wsaECONNREFUSED)
}

func ask(ctx context.Context, url string) answer {
	ctx, cancel := context.WithTimeout(ctx, rivalWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{URL: url, Err: err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{URL: url, Err: err}
	}
	defer resp.Body.Close()
	const longest = 64 // of a mode's name
	body, err := io.ReadAll(io.LimitReader(resp.Body, longest))
	a := answer{URL: url, Err: err}
	if resp.StatusCode == http.StatusOK {
		a.Body, _, _ = strings.Cut(strings.TrimSpace(string(body)), "\n")
	}
	return a
}

// WatchRivals looks for a service proxy on this node until ctx ends, and calls changed when one comes or goes.
func (m *Mode) WatchRivals(ctx context.Context, changed func()) {
	for {
		if rival, known := rivalOf(ask(ctx, proxyMode), ask(ctx, proxyHealth)); known {
			if before := m.rival.Swap(&rival); before == nil && rival != "" || before != nil && *before != rival {
				changed()
			}
		}
		if !wakeup.Pause(ctx, rivalPeriod) {
			return
		}
	}
}
