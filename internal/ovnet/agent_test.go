package ovnet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// asks sends a question to a handler and returns the answer's code and text.
func asks(ctx context.Context, h http.Handler, query string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/pod?"+query, nil))
	body, _ := io.ReadAll(w.Body)
	return w.Code, string(body)
}

// without answers that a pod has no annotation, and counts.
func without(looks *atomic.Int64) func(context.Context, string, string) (Answer, error) {
	return func(context.Context, string, string) (Answer, error) {
		looks.Add(1)
		return Answer{UID: "u"}, nil
	}
}

// TestWaitIsBounded: whatever a question asks for, it ends after the time that the plugin asks for, and the pod is read
// seldom meanwhile.
func TestWaitIsBounded(t *testing.T) {
	for wait, longest := range map[string]time.Duration{"9999h": waitQuery, "20s": waitQuery, "1s": time.Second, "0": 0,
		"-5s": 0, "x": 0, "": 0} {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var looks atomic.Int64
			began := time.Now()
			code, text := asks(ctx, Handler(without(&looks), nil), "wait="+wait)
			if took := time.Since(began); took != longest || looks.Load() > 12 {
				t.Errorf("wait=%s: %d looks in %v, want at most 12 in %v", wait, looks.Load(), took, longest)
			}
			if code != http.StatusServiceUnavailable || !strings.Contains(text, "has no annotation") {
				t.Errorf("wait=%s: %d %s", wait, code, text)
			}
		})
	}
}

// TestManyWait: while as many questions wait as may, another one is looked up once and refused; one of a pod with its
// annotation is answered.
func TestManyWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		at := netip.MustParseAddr("10.244.1.7")
		right := AnnotationOf(Address{at, MACOf(at)}, netip.MustParsePrefix("10.244.1.0/24"))
		none := without(&looks)
		h := Handler(func(ctx context.Context, namespace, name string) (Answer, error) {
			if name == "right" {
				return Answer{UID: "u", Annotation: right}, nil
			}
			return none(ctx, namespace, name)
		}, nil)

		var refused atomic.Int64
		var all sync.WaitGroup
		for range 2 * mostWaiting {
			all.Go(func() {
				began := time.Now()
				if code, _ := asks(t.Context(), h, "wait=20s"); code != http.StatusOK &&
					time.Since(began) <= queueTime {
					refused.Add(1)
				}
			})
		}
		time.Sleep(queueTime + time.Millisecond)
		if got := refused.Load(); got != mostWaiting {
			t.Errorf("%d of %d questions are refused, want %d", got, 2*mostWaiting, mostWaiting)
		}
		if code, text := asks(t.Context(), h, "name=right&wait=20s"); code != http.StatusOK {
			t.Errorf("a pod with its annotation: %d %s", code, text)
		}
		all.Wait()
		if got, most := looks.Load(), int64(paceBurst+(waitQuery+time.Second)/paceEvery); got > most {
			t.Errorf("%d looks, want at most %d", got, most)
		}
		if code, _ := asks(t.Context(), h, "wait=0"); code != http.StatusServiceUnavailable || looks.Load() == 0 {
			t.Errorf("afterwards: %d", code)
		}
	})
}

// TestManyAsk: no more questions than pods of a node are worked at, and they reach the API server one after the other.
func TestManyAsk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at atomic.Int64
		h := Handler(func(ctx context.Context, _, _ string) (Answer, error) {
			at.Add(1)
			time.Sleep(time.Second)
			return Answer{}, ctx.Err()
		}, nil)
		var busy atomic.Int64
		var all sync.WaitGroup
		for range mostAsked + 10 {
			all.Go(func() {
				if code, _ := asks(t.Context(), h, ""); code == http.StatusTooManyRequests {
					busy.Add(1)
				}
			})
		}
		bubble.Wait()
		if at.Load() != paceBurst || busy.Load() != 10 {
			t.Errorf("%d are looked up and %d refused at once, want %d and 10", at.Load(), busy.Load(), paceBurst)
		}
		all.Wait()
	})
}

// TestSpoiledAnnotationIsAwaited: the agent hands out no annotation that the controller writes again.
func TestSpoiledAnnotationIsAwaited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		at := netip.MustParseAddr("10.244.1.7")
		right := AnnotationOf(Address{at, MACOf(at)}, netip.MustParsePrefix("10.244.1.0/24"))
		spoiled := strings.Replace(right, MACOf(at), "0a:58:0a:f4:01:01", 1)
		began := time.Now()
		h := Handler(func(context.Context, string, string) (Answer, error) {
			if time.Since(began) > 100*time.Millisecond {
				return Answer{UID: "u", Annotation: right}, nil
			}
			return Answer{UID: "u", Annotation: spoiled}, nil
		}, nil)
		if code, text := asks(t.Context(), h, "wait=20s"); code != http.StatusOK || !strings.Contains(text, MACOf(at)) {
			t.Errorf("%d %s", code, text)
		}
		began = time.Now()
		if code, text := asks(t.Context(), h, "wait=0"); code != http.StatusServiceUnavailable ||
			!strings.Contains(text, "does not belong to ip_address") {
			t.Errorf("%d %s", code, text)
		}
	})
}

// TestPace: who asks and goes away at once does not make others wait for ever, and the rate holds.
func TestPace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var p pace
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10_000 {
			p.wait(gone)
		}
		if err := p.wait(t.Context()); !errors.Is(err, errBusy) {
			t.Errorf("the queue is not full: %v", err)
		}
		time.Sleep(paceEvery)
		began := time.Now()
		if err := p.wait(t.Context()); err != nil || time.Since(began) > queueTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}

		time.Sleep(time.Hour)
		began = time.Now()
		for range paceBurst + 50 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took, want := time.Since(began), 50*paceEvery; took != want {
			t.Errorf("%d looks take %v, want %v", paceBurst+50, took, want)
		}
	})
}
